// The device on which the daemon works on memory: a GPU, or host memory that emulates one.
//
// OWNER: the daemon, one Device for all its tenants. THREAD: the owning engine only; a Device may
// have threads of its own. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_DEVICE_H_
#define MCCS_SERVICE_DEVICE_DEVICE_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "proto/shim_control.h"
#include "service/device/device_plan.h"
#include "service/device/gpu/kernel_call.h"
#include "service/device/mem_op.h"
#include "service/device/region.h"

namespace mccs {

struct BufferExport;
struct KernelImage;

// An address range of the daemon into which a tenant's allocations are mapped one after the other.
// address() and bytes() describe the whole range; unmapped parts must not be accessed.
class DeviceRange : public Region {
 public:
  DeviceRange(std::byte* address, uint64_t bytes) : Region(RegionKind::kTenant, address, bytes) {}
  // Maps the first `offer.bytes` bytes of the allocation of `offer.fd` at `offset`. Rejects what
  // MemoryMapper::Import rejects, and offers that are not whole pages. REQUIRES: within the range,
  // and nothing is mapped there. PopulatePart then populates what was mapped last.
  // THREAD: one calls Map and PopulatePart, another one may call Unmap and ReleasePart.
  virtual absl::Status Map(uint64_t offset, const BufferExport& offer) = 0;
  // Undoes one Map. REQUIRES: as for the end of a Region.
  virtual void Unmap(uint64_t offset, uint64_t bytes) = 0;
};

// A tenant's offer: the handle or descriptor of one whole allocation.
struct BufferExport {
  wire::ExportKind kind = wire::ExportKind::kCudaIpc;
  std::array<uint8_t, wire::kIpcHandleBytes> handle = {};
  UniqueFd fd;                  // kFileDescriptor, kHostMemory
  UniqueFd dma_buf = {};        // of memory on a GPU; invalid: none
  uint64_t bytes = 0;           // as the tenant claims; verified on import
  pid_t owner = 0;              // the session's process, from the kernel
  uint64_t address = 0;         // for the owner's kernels, as the tenant claims
  int32_t device = 0;           // CUDA ordinal in the owner, likewise
  uint64_t dma_buf_offset = 0;  // of the first byte, as the tenant claims
  std::string no_dma_buf = {};  // why there is none, likewise
  // Of its file: a larger one is rejected. Address space is in the host's budget before the file is
  // mapped, and the tenant may let it grow until then.
  uint64_t most_bytes = std::numeric_limits<uint64_t>::max();
};

// How kernels reach memory that a tenant has offered, without a descriptor.
inline Region::KernelAccess KernelAccessOf(const BufferExport& offer) {
  return {.kind = offer.kind,
          .handle = offer.handle,
          .owner = offer.owner,
          .owner_address = offer.address,
          .owner_device = offer.device};
}

class GpuAddressSpace;
class MemoryMapper;

// A copy between memory of two ranks on this host.
struct RegionCopy {
  RegionSpan from, to;  // of the same length
  // The kernel that copies; none: `process` does, by a thread. Then `from` is host memory, and `to`
  // is memory of the process on its GPU.
  KernelCall kernel = {};
  GpuAddressSpace* process = nullptr;
  // True: a copy by the process ends now, without a result. Null: never. LIFETIME: as the copy's.
  const bool* abandoned = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;

  // Maps and unmaps tenants' memory. LIFETIME: that of the device.
  virtual MemoryMapper& mapper() = 0;

  // Staging memory for lanes. kResourceExhausted: out of memory. LIFETIME: the device outlives it.
  virtual absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t bytes) = 0;

  // Discards the contents of `bytes` and releases their memory as far as the device can (whole
  // pages); the next use allocates it again. The addresses stay valid. REQUIRES: part of one
  // Allocate's result, and no MemOp or lane uses them now.
  virtual void Discard(std::span<std::byte> bytes) = 0;

  // Prepares a plan for its operations. Keep the result as long as the plan is in use: loading
  // costs as much as some operations. kResourceExhausted: the plan needs more than its most_bytes.
  // LIFETIME: the device outlives it.
  virtual absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad plan) = 0;

  enum class Submitted {
    kQueueFull,  // retry after Poll()
    kStarted,    // Poll() returns the token exactly once
    kFinished,   // complete, without an error; Poll() does not return the token
  };
  // Starts `op`, and completes small operations. THREAD: as Poll: the caller sees what a finished
  // operation wrote.
  virtual Submitted Submit(const MemOp& op, MemToken token) = 0;
  // Starts a copy of memory that the daemon may not have mapped; Poll() returns the token exactly
  // once. Copies of one queue run in order. REQUIRES: uses_kernels(). LIFETIME: as a MemOp's.
  virtual void Copy(const RegionCopy& copy, MemToken token);

  struct Finished {
    MemToken token;
    // The device's error, after which the destinations are undefined; null: none.
    // LIFETIME: until the next Poll.
    const absl::Status* error;
  };
  struct Polled {
    size_t finished = 0;
    bool worked = false;  // this call ran part of an operation: call again soon
  };
  // Writes the finished operations, at most finished.size(), and returns their number. The caller
  // sees what a finished operation wrote. Takes well below a millisecond, whatever the size of the
  // operations.
  virtual Polled Poll(std::span<Finished> finished) = 0;

  // Measured memory bandwidth in bit/s, read plus written, averaged over recent large MemOps; 0:
  // unknown.
  virtual uint64_t memory_bps() const { return 0; }

  // Plans run in kernels of the tenants' processes, which take commands
  // (OperationBinding::kernels). Only they reach memory on GPUs, and regions of it have no address.
  virtual bool uses_kernels() const { return false; }
  // The image that those processes load. Null: none. LIFETIME: that of the device.
  virtual const KernelImage* kernel_image() const { return nullptr; }
  // Lanes read and write all buffers. Otherwise it depends on the lane and the buffer
  // (LaneEnd::Reach), and plans that need others are Staged (algorithms/staged_plan.h): slices go
  // through memory of Allocate.
  virtual bool lanes_reach_buffers() const { return true; }

  // For logs: "host memory, AVX3_SPR, 2 workers".
  virtual std::string Description() const = 0;

  // Bytes read and written so far by operations that completed within Submit (PendingMemOps): the
  // engine's own work.
  uint64_t inline_bytes() const { return inline_bytes_; }

 private:
  friend struct PendingMemOps;
  uint64_t inline_bytes_ = 0;
};

// Whether the daemon can read and write the memory.
inline bool IsMapped(const Device& device, const RegionSpan& memory) {
  return !device.uses_kernels() || memory.region->address() != nullptr;
}

// All MemOps in the device of one owner.
struct MemOpOwner {
  uint32_t outstanding = 0;
  absl::Status status;     // the first error. Permanent: the owner ends its work
  bool abandoned = false;  // the owner waits no longer for copies by processes
};

// MemOps of one step or copy that the device has not finished: a MemOp's token is the address of
// this.
// LIFETIME: this and `owner` keep their addresses while any are outstanding.
struct PendingMemOps {
  MemOpOwner* owner = nullptr;
  uint32_t outstanding = 0;

  // Submits `op` to the device. False: its queue is full.
  bool Submit(Device& device, const MemOp& op) {
    const Device::Submitted submitted = device.Submit(op, reinterpret_cast<MemToken>(this));
    if (submitted == Device::Submitted::kStarted) {
      ++outstanding;
      ++owner->outstanding;
    }
    if (submitted == Device::Submitted::kFinished) device.inline_bytes_ += BytesMoved(op);
    return submitted != Device::Submitted::kQueueFull;
  }

  void Submit(Device& device, RegionCopy copy) {
    copy.abandoned = &owner->abandoned;
    device.Copy(copy, reinterpret_cast<MemToken>(this));
    ++outstanding;
    ++owner->outstanding;
  }

  static void OnFinished(const Device::Finished& finished) {
    auto* pending = reinterpret_cast<PendingMemOps*>(finished.token);
    --pending->outstanding;
    --pending->owner->outstanding;
    if (finished.error != nullptr) pending->owner->status.Update(*finished.error);
  }
};

// Takes finished MemOps from the device and notifies their owners. Returns true if there were any,
// or if the device did work during this call. Called once per turn of the engine, for all
// communicators.
bool DispatchFinished(Device& device);

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_DEVICE_H_
