// The free memory of each emulated GPU: MCCS_EMULATED_MEMORY minus the allocations of this process.
//
// Memory that was freed here is not free while another process maps it or holds an exported
// descriptor, as on a GPU. Detected through the kernel, which grants the seal against writing, and
// the exclusive lock, only if no other process uses the memory file.
//
// THREAD: any; one lock inside.
#ifndef MCCS_EMULATION_CORE_MEMORY_ACCOUNT_H_
#define MCCS_EMULATION_CORE_MEMORY_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"

namespace mccs::emulation {

class MemoryAccount {
 public:
  // `capacity_bytes`: of each GPU, counted in this process only.
  MemoryAccount(int gpus, uint64_t capacity_bytes);

  // Returns false if less than `bytes` is free.
  bool Reserve(int gpu, size_t bytes);
  void Release(int gpu, size_t bytes);
  // Releases the bytes of a memory file once no other process holds it. The descriptor's number is
  // free afterwards, so a handle that contains it is stale.
  // REQUIRES: this process does not map the file any more.
  void ReleaseUnlessHeld(int gpu, size_t bytes, UniqueFd memory);

  uint64_t used_bytes(int gpu);
  uint64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Held {
    int gpu;
    size_t bytes;
    UniqueFd memory;
  };
  void ReclaimReleased();  // REQUIRES: the lock is held

  std::mutex mutex_;
  const uint64_t capacity_bytes_;
  std::vector<uint64_t> used_bytes_;  // by gpu
  std::vector<Held> held_;            // freed here, but held by others at the last check
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_ACCOUNT_H_
