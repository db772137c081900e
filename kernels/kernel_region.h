// The shared memory by which the daemon gives commands to the kernels of one rank. The daemon makes
// and seals it, zeroed; the rank's process maps it and registers it with CUDA.
#ifndef MCCS_KERNELS_KERNEL_REGION_H_
#define MCCS_KERNELS_KERNEL_REGION_H_

#include <cstddef>

#include "kernels/block_words.h"
#include "kernels/commands.h"
#include "proto/fence_page.h"
#include "proto/shim_wire.h"

namespace mccs::kernels {

struct KernelRegion {
  wire::FencePageHeader header;
  CommandQueue posted[wire::kReadySlots];       // by the ready slot of a call
  CommandQueue captured[wire::kCapturedSlots];  // by the captured slot
};
static_assert(offsetof(KernelRegion, posted) % 64 == 0 && sizeof(CommandQueue) % 64 == 0);
static_assert(offsetof(CommandQueue, published) == sizeof(wire::FenceLine));

// The words of each queue's kernel, zeroed: the process adds them in memory of the GPU.
struct RegionBlockWords {
  BlockWords posted[wire::kReadySlots];
  BlockWords captured[wire::kCapturedSlots];
};

inline wire::FenceLine& BellOf(CommandQueue& queue) {
  return reinterpret_cast<wire::FenceLine&>(queue.bell);
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_KERNEL_REGION_H_
