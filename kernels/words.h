// Words in memory that a kernel shares with the daemon and with kernels of other processes.
#ifndef MCCS_KERNELS_WORDS_H_
#define MCCS_KERNELS_WORDS_H_

#include <cstdint>

#include "base/portable.h"

namespace mccs::kernels {

// Acquire, for the whole system: what the writer wrote before the word is visible afterwards.
MCCS_HOST_DEVICE inline uint64_t LoadWord(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

// Release, for the whole system. On a GPU: what other threads of the block wrote is included if the
// block has synchronized since.
MCCS_HOST_DEVICE inline void StoreWord(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  __threadfence_system();
  asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

// ---- Words that only the blocks of one kernel share (block_words.h) ----

// Acquire, for the GPU.
MCCS_HOST_DEVICE inline uint64_t LoadBlockWord(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

// Release, for the GPU; other threads of the block as with StoreWord. What this thread has seen
// before of other blocks is included.
MCCS_HOST_DEVICE inline void StoreBlockWord(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  __threadfence();
  asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

// Adds 1 and returns the new value. Acquire and release, for the GPU; other threads of the block as
// with StoreWord. The fence is for the system: a block that sees the value may notify other
// processors of this block's data.
MCCS_HOST_DEVICE inline uint64_t IncrementBlockWord(uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t before;
  __threadfence_system();
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], 1;"
               : "=l"(before)
               : "l"(word)
               : "memory");
  return before + 1;
#else
  return __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL);
#endif
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_WORDS_H_
