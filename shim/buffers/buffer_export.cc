#include "shim/buffers/buffer_export.h"

#include <chrono>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "shim/config/diagnostics.h"
#include "shim/cuda/dma_buf.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/error_message.h"

namespace mccs::shim {
namespace {

// A daemon that takes longer to map an allocation counts as stuck.
constexpr std::chrono::seconds kRegisterTimeout{30};

CUdeviceptr Address(const BufferUse& use) { return reinterpret_cast<CUdeviceptr>(use.address); }

std::string Describe(const BufferUse& use) {
  return absl::StrCat(View(use.function), ": ", View(use.argument), " 0x", absl::Hex(Address(use)));
}

absl::Status UnknownMemory(const BufferUse& use) {
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(use),
                   " is not CUDA memory: it was never allocated or is already freed; pass memory ",
                   "of the CUDA device"));
}

absl::Status CheckWithin(const BufferUse& use, const AddressRange& allocation) {
  if (use.bytes <= allocation.bytes - (Address(use) - allocation.base)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(use), " + ", use.bytes, " bytes exceeds its allocation (", allocation.bytes,
      " bytes from 0x", absl::Hex(allocation.base), "); correct the count or the address"));
}

struct KindDescription {
  const char* what;
  const char* remedy;
};

// The data that registers an allocation with the daemon.
struct BufferRegistration {
  wire::RegisterBuffer message{};
  UniqueFd fd;  // of virtual memory
};

// Empty if CUDA cannot share the memory. REQUIRES: virtual memory is one mapping.
absl::StatusOr<std::optional<BufferRegistration>> RegistrationOf(const DriverApi& driver,
                                                                 MemoryKind kind,
                                                                 const AddressRange& allocation) {
  if (kind != MemoryKind::kVirtual && kind != MemoryKind::kDevice) return std::nullopt;
  BufferRegistration offer;
  offer.message.bytes = allocation.bytes;
  offer.message.address = allocation.base;
  driver.PointerGetAttribute(&offer.message.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                             allocation.base);
  CUuuid uuid;
  if (CUresult error = driver.DeviceGetUuid(&uuid, offer.message.device); error != CUDA_SUCCESS) {
    return CudaError(
        driver, error,
        absl::StrCat("cannot get the GPU of memory at 0x", absl::Hex(allocation.base)));
  }
  std::memcpy(offer.message.device_uuid, &uuid, sizeof(offer.message.device_uuid));
  if (kind == MemoryKind::kVirtual) {
    offer.message.kind = wire::ExportKind::kFileDescriptor;
    MCCS_ASSIGN_OR_RETURN(offer.fd, DescriptorOf(driver, allocation.base));
    if (!offer.fd.valid()) return std::nullopt;
    return offer;
  }
  offer.message.kind = wire::ExportKind::kCudaIpc;
  CUipcMemHandle handle;
  static_assert(sizeof(handle) == sizeof(offer.message.handle));
  if (driver.IpcGetMemHandle(&handle, allocation.base) != CUDA_SUCCESS) return std::nullopt;
  std::memcpy(offer.message.handle, &handle, sizeof(handle));
  return offer;
}

constexpr KindDescription kKindDescriptions[kMemoryKinds] = {
    {"memory of a pool (cudaMallocAsync) or of another process", "use cudaMalloc"},
    {"virtual memory without a shareable file descriptor",
     "set CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR in requestedHandleTypes of cuMemCreate"},
    {"managed memory (cudaMallocManaged)", "use cudaMalloc"},
    {"pinned host memory", "use device memory (cudaMalloc)"},
};

}  // namespace

// ---- All exports of the session --------------------------------------------------------------

absl::StatusOr<BufferExports::Found> BufferExports::Find(const BufferUse& use) {
  const CUdeviceptr address = Address(use);
  const std::optional<unsigned long long> cuda_id = BufferIdOf(driver_, address);
  if (!cuda_id) return UnknownMemory(use);
  if (use.bytes > UINT64_MAX - address) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(use), " + ", use.bytes, " bytes exceeds the address space"));
  }
  std::lock_guard lock(mutex_);
  if (virtual_.IsMapped(address, *cuda_id)) return FindVirtual(use);
  const auto it = FirstAfter(address);
  if (it != entries_.end() && it->second.buffer.range.Contains(address) &&
      it->second.buffer.cuda_id == *cuda_id) {
    MCCS_RETURN_IF_ERROR(CheckWithin(use, it->second.buffer.range));
    it->second.last_use = leases_.UsedNow();
    return Found{it->second.buffer, it->second.buffer.PlaceOf(address)};
  }
  return Export(use, *cuda_id);
}

absl::StatusOr<BufferExports::Found> BufferExports::FindVirtual(const BufferUse& use) {
  has_exports_ =
      true;  // set before the daemon's reply wakes the reader, which then starts the leases
  absl::StatusOr<VirtualRanges::Found> range = virtual_.Resolve({Address(use), use.bytes});
  if (!range.ok()) {
    return absl::Status(range.status().code(),
                        absl::StrCat(Describe(use), " + ", use.bytes,
                                     " bytes cannot be used: ", range.status().message()));
  }
  if (range->id == 0 && range->map_failure.empty()) return Stage(use, MemoryKind::kVirtual);
  if (range->id == 0) {
    if (!std::exchange(map_failure_logged_, true) && IsLogged(Verbosity::kWarn)) {
      LogLine(Verbosity::kWarn,
              absl::StrCat(Describe(use), " is copied through staging memory: the ",
                           "MCCS daemon did not map it (", range->map_failure, ")"));
    }
    return Found{.buffer = {}, .place = {.ref = {}, .staged = true}};
  }
  const uint64_t before = Address(use) - range->chunk.base;
  const ExportedBuffer chunk{.range = range->chunk,
                             .cuda_id = range->cuda_id,
                             .id = range->id,
                             .offset = range->offset - before};
  return Found{chunk, chunk.PlaceOf(Address(use))};
}

std::optional<AddressRange> BufferExports::RangeOf(const wire::BufferRef& ref, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  for (const auto& [base, entry] : entries_) {
    if (entry.buffer.id == ref.id) return entry.buffer.range;
  }
  return virtual_.ChunksAround(ref.id, {ref.offset, bytes});
}

absl::StatusOr<uint32_t> BufferExports::Register(DaemonClient& client,
                                                 const wire::RegisterBuffer& message,
                                                 const MessageDescriptors& descriptors) {
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, client.Send(message, descriptors));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, client.Await(request, kRegisterTimeout));
  MCCS_ASSIGN_OR_RETURN(const auto registered, reply.As<wire::RegisterReply>());
  return registered.buffer_id;
}

absl::StatusOr<BufferExports::Found> BufferExports::Export(const BufferUse& use,
                                                           unsigned long long cuda_id) {
  const RelaxedCapture relaxed(driver_);
  const CUdeviceptr address = Address(use);
  const std::optional<MemoryKind> kind = KindOf(driver_, address);
  const std::optional<AddressRange> extent = ExtentOf(driver_, address);
  if (!kind || !extent) return UnknownMemory(use);
  ExportedBuffer fresh{.range = *extent, .cuda_id = cuda_id};
  const bool whole = *kind != MemoryKind::kVirtual || allocations_.Contains(fresh.range);
  if (!whole) return FindVirtual(use);
  MCCS_RETURN_IF_ERROR(CheckWithin(use, fresh.range));
  MCCS_ASSIGN_OR_RETURN(std::optional<BufferRegistration> offer,
                        RegistrationOf(driver_, *kind, fresh.range));
  if (!offer) return Stage(use, *kind);

  // The previous memory at these addresses is gone: its export is released first.
  for (auto overlap = FirstAfter(fresh.range.base);
       overlap != entries_.end() && overlap->second.buffer.range.Overlaps(fresh.range);) {
    overlap = DropFreed(overlap);
  }
  ReleaseFreed();
  has_exports_ =
      true;  // set before the daemon's reply wakes the reader, which then starts the leases
  MCCS_ASSIGN_OR_RETURN(const UniqueFd dma_buf, AddDmaBuf(&fresh, &offer->message));
  MCCS_ASSIGN_OR_RETURN(fresh.id, Register(client_, offer->message,
                                           {.first = offer->fd.get(), .second = dma_buf.get()}));
  if (IsLogged(Verbosity::kInfo, Subsystem::kReg)) {
    LogLine(Verbosity::kInfo,
            absl::StrCat("buffer ", fresh.id, ": ", fresh.range.bytes, " bytes from 0x",
                         absl::Hex(fresh.range.base), " registered with the daemon"),
            Subsystem::kReg);
  }
  entries_[fresh.range.base] = {fresh, leases_.UsedNow()};
  return Found{fresh, fresh.PlaceOf(address)};
}

absl::StatusOr<UniqueFd> BufferExports::AddDmaBuf(ExportedBuffer* buffer,
                                                  wire::RegisterBuffer* message) {
  if (!client_.wants_dma_bufs()) return UniqueFd();
  absl::StatusOr<DmaBuf> dma_buf = ExportDmaBuf(driver_, message->device, buffer->range);
  if (dma_buf.ok()) {
    if (!dma_buf->ordered_for_all) buffer->only_device = message->device;
    message->has_dma_buf = 1;
    message->dma_buf_offset = dma_buf->offset;
    return std::move(dma_buf->descriptor);
  }
  if (!absl::IsUnimplemented(dma_buf.status())) return dma_buf.status();
  const std::string why(dma_buf.status().message());
  why.copy(message->no_dma_buf, sizeof(message->no_dma_buf) - 1);
  if (!std::exchange(no_dma_buf_logged_, true) && IsLogged(Verbosity::kWarn)) {
    LogLine(Verbosity::kWarn,
            absl::StrCat("memory at 0x", absl::Hex(buffer->range.base),
                         " has no dma-buf for NICs: ", why,
                         ". Kernels copy such buffers through host memory in collectives "
                         "over RDMA"));
  }
  return UniqueFd();
}

// Not cached: it costs the daemon nothing, and a new CUDA query is cheap compared with the copies.
BufferExports::Found BufferExports::Stage(const BufferUse& use, MemoryKind kind) {
  const auto index = static_cast<size_t>(kind);
  if (!std::exchange(staging_logged_[index], true) && IsLogged(Verbosity::kWarn)) {
    LogLine(
        Verbosity::kWarn,
        absl::StrCat(Describe(use), " is ", kKindDescriptions[index].what,
                     ", which the MCCS daemon cannot map: such buffers are copied through staging "
                     "memory; to avoid the copies, ",
                     kKindDescriptions[index].remedy, ", or use ncclMemAlloc"));
  }
  return Found{.buffer = {}, .place = {.ref = {}, .staged = true}};
}

// ---- Recent buffers of a communicator --------------------------------------------------------

const ExportedBuffer* RecentBuffers::FindRecent(uint64_t address) {
  if (recent_[newest_].range.Contains(address)) return &recent_[newest_];
  for (size_t i = 0; i < kRecent; ++i) {
    if (recent_[i].range.Contains(address)) {
      newest_ = i;
      return &recent_[i];
    }
  }
  return nullptr;
}

// An address that is unknown to CUDA is reported by the lookup of its allocation.
absl::Status RecentBuffers::CheckDevice(const BufferUse& use) const {
  int device = -1;
  if (driver_.PointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, Address(use)) !=
          CUDA_SUCCESS ||
      device == *only_device_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(use), " is memory of CUDA device ", device, ", but the communicator uses device ",
      *only_device_, " (NCCL_CHECK_POINTERS=1 enables this check)"));
}

bool RecentBuffers::KernelsSee(const ExportedBuffer& buffer) const {
  CUdevice current = -1;
  return !buffer.only_device.has_value() ||
         (driver_.CtxGetDevice(&current) == CUDA_SUCCESS && current == *buffer.only_device);
}

absl::StatusOr<BufferPlace> RecentBuffers::Resolve(const BufferUse& use) {
  if (only_device_) MCCS_RETURN_IF_ERROR(CheckDevice(use));
  const CUdeviceptr address = Address(use);
  if (const uint64_t now = exports_.leases().generation(); now != generation_) [[unlikely]] {
    recent_ = {};
    generation_ = now;
  }
  const ExportedBuffer* buffer = FindRecent(address);
  if (buffer != nullptr && buffer->range.Contains({address, use.bytes}) &&
      BufferIdOf(driver_, address) == buffer->cuda_id) [[likely]] {
    return buffer->PlaceOf(address);
  }
  MCCS_ASSIGN_OR_RETURN(const BufferExports::Found found, exports_.Find(use));
  if (!found.place.staged && !KernelsSee(found.buffer))
    return BufferPlace{.ref = {}, .staged = true};
  if (!found.place.staged) Cache(found.buffer);
  return found.place;
}

void RecentBuffers::Cache(const ExportedBuffer& buffer) {
  for (ExportedBuffer& old : recent_) {
    if (old.range.Overlaps(buffer.range)) old = {};
  }
  recent_[victim_] = buffer;
  newest_ = victim_;
  victim_ = (victim_ + 1) % kRecent;
}

}  // namespace mccs::shim
