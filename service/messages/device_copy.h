// A copy between two places in memory of this host.
//
// THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_DEVICE_COPY_H_
#define MCCS_SERVICE_MESSAGES_DEVICE_COPY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "service/device/device.h"
#include "service/device/gpu/kernel_call.h"
#include "service/messages/open_message.h"

namespace mccs {

// Copies memory to memory on this host, by the device. What the daemon has mapped is split into
// parts, so that all workers are used and each part fits a worker's cache. A kernel or
// a process copies the rest, as a whole.
//
// LIFETIME: this and the memory keep their addresses while the device has parts.
class DeviceCopy {
 public:
  struct Job {
    RegionSpan from;
    RegionSpan to;
    uint64_t bytes = 0;
    KernelCall kernel = {};              // that can copy
    GpuAddressSpace* process = nullptr;  // of `to`, which can copy from what the daemon has mapped
  };
  // `owner`: of all copies together. It checks its status.
  DeviceCopy(const Device& device, const Job& job, MemOpOwner* owner);

  // Whether the device can make the copy.
  static bool IsPossible(const Device& device, const Job& job);
  // Submits as many parts as the device accepts. Returns true when everything is copied. Sets
  // `moved` if any part was submitted.
  bool Advance(Device& device, bool* moved);
  // The copy will not be completed, because the communicator has failed: it ends soon.
  void Stop();

 private:
  bool AdvanceMapped(Device& device, bool* moved);
  bool AdvanceUnmapped(Device& device, bool* moved);

  // Parts in the device at a time: enough for all its workers.
  static constexpr size_t kParts = 4;
  // As Geometry's local slices: the operands fit a core's second-level cache.
  static constexpr uint64_t kPartBytes = 256 << 10;
  // Copies of this size exceed a core's caches (MemOp::stream).
  static constexpr uint64_t kLargeBytes = 4 << 20;

  struct Part {
    PendingMemOps mem_ops;
    MemSource source;
    std::byte* destination = nullptr;
  };

  Job job_;
  const bool mapped_;
  uint64_t submitted_ = 0;  // bytes
  std::array<Part, kParts> parts_;
};

// The error of a call whose memory neither the daemon nor a kernel can copy: kInvalidArgument.
absl::Status NotMapped(const OpenMessage& call);

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_DEVICE_COPY_H_
