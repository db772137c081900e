// The kernel of one call, as the place for its commands.
#ifndef MCCS_SERVICE_DEVICE_GPU_KERNEL_CALL_H_
#define MCCS_SERVICE_DEVICE_GPU_KERNEL_CALL_H_

#include <cstdint>

namespace mccs {

class KernelQueue;

struct KernelCall {
  KernelQueue* queue = nullptr;  // null: no kernel takes commands
  // The kernel waits for this value of its done word, or for a later one.
  uint64_t done_value = 0;

  bool runs() const { return queue != nullptr; }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_KERNEL_CALL_H_
