// One copy from memory to memory of this host, by the device: in parts, so that all its workers
// have something to do and none of them loses its cache.
//
// THREAD: the owning engine. Never blocks.
// LIFETIME: it stays where it is while parts of it are in the device's hands; so does the memory.
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
  // `in_flight` counts the parts in the device's hands, of all copies of their owner.
  DeviceCopy(const Job& job, uint32_t* in_flight);

  // Hands over what the device takes. True when all of it is copied. Sets `moved` when anything
  // was handed over.
  bool Advance(Device& device, bool* moved);

 private:
  // Parts that the device has at a time: enough for all its workers.
  static constexpr size_t kParts = 4;
  // As Geometry's local slices: the operands stay in a core's second-level cache.
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
