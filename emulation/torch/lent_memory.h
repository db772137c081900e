// Host allocations that come from CUDA's allocator.
//
// A CPU kernel that runs in a GPU's place allocates its results as any CPU kernel does. While a
// LentMemory lives, these allocations come from the current device's caching allocator, so that a
// result becomes a CUDA tensor by a change of its label: nothing is copied, PyTorch's memory
// statistics and limits count it, and NCCL finds an allocation that it may export.
#ifndef MCCS_EMULATION_TORCH_LENT_MEMORY_H_
#define MCCS_EMULATION_TORCH_LENT_MEMORY_H_

#include <c10/core/Storage.h>

namespace mccs::torch_on_host {

// Puts the lending allocator before PyTorch's own for the host. Once per process, never undone:
// tensors that outlive everything hold on to it.
void InstallLendingAllocator();

// Allocations of this thread for the host come from the current CUDA device.
// THREAD: the one that made it. May nest.
class LentMemory {
 public:
  LentMemory();
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

 private:
  const bool before_;
};

// Takes the memory out of a host storage and labels it as `device`'s. Memory that was not lent, or
// that others (more than `holders`) still see, is copied.
// ENSURES: where it was not copied, `storage` is empty.
// REQUIRES: `device` is the current one.
c10::DataPtr TakeForDevice(const c10::Storage& storage, c10::Device device, size_t holders);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_LENT_MEMORY_H_
