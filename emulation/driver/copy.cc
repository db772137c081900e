#include "emulation/driver/copy.h"

#include <cstring>
#include <utility>

namespace mccs::emulation {
namespace {

enum class Side { kDevice, kPinned, kPageable };

// How many bytes from the first to the last that the rows touch.
std::optional<size_t> Extent(size_t row_bytes, size_t rows, size_t pitch) {
  if (rows == 1) return row_bytes;
  if (pitch < row_bytes || pitch > SIZE_MAX / rows) return std::nullopt;
  return pitch * (rows - 1) + row_bytes;
}

// Where the memory is; empty where it reaches beyond its allocation or is not what it has to be.
std::optional<Side> Classify(const MemoryMap& memory, const void* address, size_t bytes, End end) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const std::optional<Region> region = memory.Find(start);
  if (!region) {
    if (end == End::kDevice || address == nullptr) return std::nullopt;
    return Side::kPageable;
  }
  if (!region->Contains(start, bytes)) return std::nullopt;
  const bool host = region->kind == RegionKind::kHost || region->kind == RegionKind::kRegistered;
  return host ? Side::kPinned : Side::kDevice;
}

// Copies the rows out of memory that the program may change as soon as we return.
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

}  // namespace

CUresult SubmitCopy(CUstream stream, CopyRequest request) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CopyRows& rows = request.rows;
  if (rows.row_bytes == 0 || rows.rows == 0) return CUDA_SUCCESS;
  const std::optional<size_t> to_bytes = Extent(rows.row_bytes, rows.rows, rows.to_pitch);
  const std::optional<size_t> from_bytes = Extent(rows.row_bytes, rows.rows, rows.from_pitch);
  if (!to_bytes || !from_bytes) return CUDA_ERROR_INVALID_VALUE;
  const MemoryMap& memory = session.process->memory;
  const std::optional<Side> to = Classify(memory, rows.to, *to_bytes, request.to);
  const std::optional<Side> from = Classify(memory, rows.from, *from_bytes, request.from);
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  const bool within_devices = *to == Side::kDevice && *from == Side::kDevice;
  const bool wait = request.asynchronous ? *to == Side::kPageable : !within_devices;
  if (*from == Side::kPageable && !wait) Stage(&rows);
  Engine& engine = session.process->engine;
  const Point done = engine.Enqueue(found, std::move(rows), {}, wait);
  if (wait) engine.Wait({&done, 1});
  return CUDA_SUCCESS;
}

CUresult SubmitFill(CUstream stream, FillRows fill, bool asynchronous) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (fill.row_elements == 0 || fill.rows == 0) return CUDA_SUCCESS;
  if (fill.row_elements > SIZE_MAX / fill.element_bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<uintptr_t>(fill.to);
  if (address % fill.element_bytes != 0 || fill.pitch % fill.element_bytes != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::optional<size_t> bytes =
      Extent(fill.row_elements * fill.element_bytes, fill.rows, fill.pitch);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Side> side = Classify(session.process->memory, fill.to, *bytes, End::kDevice);
  if (!side) return CUDA_ERROR_INVALID_VALUE;
  const bool wait = !asynchronous && *side == Side::kPinned;
  Engine& engine = session.process->engine;
  const Point done = engine.Enqueue(found, fill, {}, wait);
  if (wait) engine.Wait({&done, 1});
  return CUDA_SUCCESS;
}

}  // namespace mccs::emulation
