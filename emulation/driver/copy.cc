#include <cstring>
#include <utility>

#include "emulation/driver/work_requests.h"

namespace mccs::emulation {
namespace {

enum class Side { kDevice, kPinned, kPageable };

// Returns the number of bytes from the first to the last that the rows touch.
std::optional<size_t> Extent(size_t row_bytes, size_t rows, size_t pitch) {
  if (rows == 1) return row_bytes;
  if (pitch < row_bytes || pitch > SIZE_MAX / rows) return std::nullopt;
  return pitch * (rows - 1) + row_bytes;
}

// Returns where the memory is, or empty if it exceeds its allocation or is not of the required
// kind.
std::optional<Side> Classify(const MemoryMap& memory, const void* address, size_t bytes,
                             CopyEnd end) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const std::optional<Region> region = memory.Find(start);
  if (!region) {
    if (end == CopyEnd::kDevice || address == nullptr) return std::nullopt;
    return Side::kPageable;
  }
  if (!memory.IsKnown(start, bytes)) return std::nullopt;
  const bool host = region->kind == RegionKind::kHost || region->kind == RegionKind::kRegistered;
  return host ? Side::kPinned : Side::kDevice;
}

// Copies the rows out of memory that the program may change as soon as the call returns.
void Stage(CopyRows* copy) {
  auto bytes = std::make_shared<std::vector<std::byte>>(copy->row_bytes * copy->rows);
  const auto* from = static_cast<const std::byte*>(copy->from);
  for (size_t row = 0; row < copy->rows; ++row) {
    memcpy(bytes->data() + row * copy->row_bytes, from + row * copy->from_pitch, copy->row_bytes);
  }
  copy->from = bytes->data();
  copy->from_pitch = copy->row_bytes;
  copy->staged = std::move(bytes);
}

struct Sides {
  Side to = Side::kDevice;
  Side from = Side::kDevice;
};
CUresult Classify(const CallContext& session, const CopyRequest& request, Sides* sides) {
  const CopyRows& rows = request.rows;
  const std::optional<size_t> to_bytes = Extent(rows.row_bytes, rows.rows, rows.to_pitch);
  const std::optional<size_t> from_bytes = Extent(rows.row_bytes, rows.rows, rows.from_pitch);
  if (!to_bytes || !from_bytes) return CUDA_ERROR_INVALID_VALUE;
  const MemoryMap& memory = session.process->memory;
  const std::optional<Side> to = Classify(memory, rows.to, *to_bytes, request.to);
  const std::optional<Side> from = Classify(memory, rows.from, *from_bytes, request.from);
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  *sides = {*to, *from};
  return CUDA_SUCCESS;
}

CUresult Classify(const CallContext& session, const FillRows& fill, Side* side) {
  if (fill.row_elements > SIZE_MAX / fill.element_bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<uintptr_t>(fill.to);
  if (address % fill.element_bytes != 0 || fill.pitch % fill.element_bytes != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::optional<size_t> bytes =
      Extent(fill.row_elements * fill.element_bytes, fill.rows, fill.pitch);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto found = Classify(session.process->memory, fill.to, *bytes, CopyEnd::kDevice);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *side = *found;
  return CUDA_SUCCESS;
}

// One end of a copy in two or three dimensions.
struct Plane {
  std::byte* start = nullptr;
  CopyEnd end = CopyEnd::kAny;
};
std::optional<Plane> FindPlane(CUmemorytype type, const void* host, CUdeviceptr device,
                               size_t offset) {
  auto* const on_host = static_cast<std::byte*>(const_cast<void*>(host));
  auto* const on_device = reinterpret_cast<std::byte*>(device);
  if (type == CU_MEMORYTYPE_HOST) return Plane{on_host + offset, CopyEnd::kHost};
  if (type == CU_MEMORYTYPE_DEVICE) return Plane{on_device + offset, CopyEnd::kDevice};
  if (type == CU_MEMORYTYPE_UNIFIED) return Plane{on_device + offset, CopyEnd::kAny};
  return std::nullopt;
}

size_t PitchOr(size_t pitch, size_t row_bytes) { return pitch == 0 ? row_bytes : pitch; }

}  // namespace

CUresult CheckCopy(const CallContext& session, const CopyRequest& request) {
  Sides sides;
  return Classify(session, request, &sides);
}

CUresult CheckFill(const CallContext& session, const FillRows& fill) {
  Side side = Side::kDevice;
  return Classify(session, fill, &side);
}

std::optional<CopyRequest> RequestOf(const CUDA_MEMCPY2D& copy) {
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = copy.srcXInBytes;
  wide.srcY = copy.srcY;
  wide.srcMemoryType = copy.srcMemoryType;
  wide.srcHost = copy.srcHost;
  wide.srcDevice = copy.srcDevice;
  wide.srcPitch = copy.srcPitch;
  wide.dstXInBytes = copy.dstXInBytes;
  wide.dstY = copy.dstY;
  wide.dstMemoryType = copy.dstMemoryType;
  wide.dstHost = copy.dstHost;
  wide.dstDevice = copy.dstDevice;
  wide.dstPitch = copy.dstPitch;
  wide.WidthInBytes = copy.WidthInBytes;
  wide.Height = copy.Height;
  wide.Depth = 1;
  return RequestOf(wide);
}

std::optional<CopyRequest> RequestOf(const CUDA_MEMCPY3D& copy) {
  const size_t to_pitch = PitchOr(copy.dstPitch, copy.WidthInBytes);
  const size_t from_pitch = PitchOr(copy.srcPitch, copy.WidthInBytes);
  const auto to = FindPlane(copy.dstMemoryType, copy.dstHost, copy.dstDevice,
                            (copy.dstZ * copy.dstHeight + copy.dstY) * to_pitch + copy.dstXInBytes);
  const auto from =
      FindPlane(copy.srcMemoryType, copy.srcHost, copy.srcDevice,
                (copy.srcZ * copy.srcHeight + copy.srcY) * from_pitch + copy.srcXInBytes);
  if (!to || !from) return std::nullopt;
  // Contiguous planes are equivalent to rows.
  const bool flat =
      copy.Depth <= 1 || (copy.dstHeight == copy.Height && copy.srcHeight == copy.Height);
  if (!flat) return std::nullopt;
  CopyRequest request;
  request.rows = {.to = to->start,
                  .from = from->start,
                  .row_bytes = copy.WidthInBytes,
                  .rows = copy.Height * copy.Depth,
                  .to_pitch = to_pitch,
                  .from_pitch = from_pitch,
                  .staged = nullptr};
  request.to = to->end;
  request.from = from->end;
  return request;
}

CUresult SubmitCopy(CUstream stream, CopyRequest request) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CopyRows& rows = request.rows;
  if (rows.row_bytes == 0 || rows.rows == 0) return CUDA_SUCCESS;
  Sides sides;
  const CUresult known = Classify(session, request, &sides);
  if (known != CUDA_SUCCESS) return known;
  if (!request.asynchronous) {
    if (const auto rejected = RejectIfCapturing(session, *found)) return *rejected;
  } else if (const auto captured =
                 session.process->graphs.AddNodeIfCapturing(*found, [&] { return rows; })) {
    return *captured;
  }
  const bool within_devices = sides.to == Side::kDevice && sides.from == Side::kDevice;
  const bool wait = request.asynchronous ? sides.to == Side::kPageable : !within_devices;
  if (sides.from == Side::kPageable && !wait) Stage(&rows);
  Engine& engine = session.process->engine;
  const Point done = engine.Enqueue(found, std::move(rows), {}, wait);
  const bool ended = wait && !engine.Wait({&done, 1});
  return ended ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

CUresult SubmitFill(CUstream stream, FillRows fill, bool asynchronous) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fill.row_elements == 0 || fill.rows == 0) return CUDA_SUCCESS;
  Side side = Side::kDevice;
  const CUresult known = Classify(session, fill, &side);
  if (known != CUDA_SUCCESS) return known;
  if (!asynchronous) {
    if (const auto rejected = RejectIfCapturing(session, *found)) return *rejected;
  } else if (const auto captured =
                 session.process->graphs.AddNodeIfCapturing(*found, [&] { return fill; })) {
    return *captured;
  }
  const bool wait = !asynchronous && side == Side::kPinned;
  Engine& engine = session.process->engine;
  const Point done = engine.Enqueue(found, fill, {}, wait);
  const bool ended = wait && !engine.Wait({&done, 1});
  return ended ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

}  // namespace mccs::emulation
