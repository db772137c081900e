// Copies memory to memory on this host, by the device. The copy is split into parts, so that all
// workers are used and each part fits a worker's cache.
//
// THREAD: the owning engine. Never blocks.
// LIFETIME: this and the memory keep their addresses while the device has parts.
#ifndef MCCS_SERVICE_MESSAGES_DEVICE_COPY_H_
#define MCCS_SERVICE_MESSAGES_DEVICE_COPY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "service/device/device.h"
#include "service/executor/pending_mem_ops.h"

namespace mccs {

class DeviceCopy {
 public:
  struct Job {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    uint64_t bytes = 0;
  };
  // `in_flight`: counts the parts in the device, over all copies of the owner.
  DeviceCopy(const Job& job, uint32_t* in_flight);

  // Submits as many parts as the device accepts. Returns true when everything is copied. Sets
  // `moved` if any part was submitted.
  bool Advance(Device& device, bool* moved);

 private:
  // Parts in the device at a time: enough for all its workers.
  static constexpr size_t kParts = 4;
  // As Geometry's local slices: the operands fit a core's second-level cache.
  static constexpr uint64_t kPartBytes = 256 << 10;

  struct Part {
    PendingMemOps mem_ops;
    MemSource source;
    std::byte* destination = nullptr;
  };

  Job job_;
  uint64_t submitted_ = 0;  // bytes
  std::array<Part, kParts> parts_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_DEVICE_COPY_H_
