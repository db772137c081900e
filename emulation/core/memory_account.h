// How much memory each emulated GPU has left: MCCS_EMULATED_MEMORY less what this process has
// taken.
//
// Memory that was freed here while another process still maps it, or holds a descriptor that was
// exported, is not free, as on a GPU: nobody else could be given it. The kernel knows: it grants
// the seal against writing, and the exclusive lock, to whoever is alone with a memory file.
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
  // `capacity_bytes`: of each GPU, counted in this process alone.
  MemoryAccount(int gpus, uint64_t capacity_bytes);

  // False where that much is not left.
  bool Take(int gpu, size_t bytes);
  void GiveBack(int gpu, size_t bytes);
  // Gives back the bytes of a memory file once nobody else holds it. REQUIRES: this process does
  // not map it any more. The descriptor's number is free afterwards: a handle that names it is
  // stale.
  void GiveBackUnlessHeld(int gpu, size_t bytes, UniqueFd memory);

  uint64_t used_bytes(int gpu);
  uint64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Held {
    int gpu;
    size_t bytes;
    UniqueFd memory;
  };
  void ForgetReleased();  // the lock is held

  std::mutex mutex_;
  const uint64_t capacity_bytes_;
  std::vector<uint64_t> used_bytes_;  // by gpu
  std::vector<Held> held_;            // freed here, and held by others when last looked at
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_ACCOUNT_H_
