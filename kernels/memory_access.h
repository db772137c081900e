// Loads and stores of words of 1, 2, 4, 8 and 16 bytes, aligned to their size.
//
// On the device the loads are ld.relaxed.sys. The sources are memory that other GPUs or processes
// write while the kernel runs: the slots of a lane are used again and again, and the inputs of
// other ranks are ready at different times. So:
// - ld.global.nc (__ldg) is wrong: it requires that no one writes the memory during the kernel.
// - Plain loads may hit a line of the L1 cache from an earlier use of the slot. An acquire by the
//   thread that polled the flag invalidates the L1 of its own multiprocessor only; other blocks of
//   the team learn of the flag from that thread, and would each need an acquire of their own.
// - ld.relaxed.sys reads the point of coherence of all writers: the L2 of the GPU that owns the
//   memory, or host memory. Nothing is lost, since each source is read once. It orders nothing by
//   itself; many of them are in flight per thread.
// The stores are plain. They write through L1, and the caller's release at system scope covers
// them.
#ifndef MCCS_KERNELS_MEMORY_ACCESS_H_
#define MCCS_KERNELS_MEMORY_ACCESS_H_

#include <cstdint>
#include <cstring>

#include "kernels/portable.h"

namespace mccs::kernels {

// kBytes bytes in registers. Words of less than 4 bytes are in the low bits of `parts[0]`.
template <int kBytes>
struct Word {
  uint32_t parts[kBytes < 4 ? 1 : kBytes / 4];
};

#ifdef __CUDA_ARCH__

template <int kBytes>
__device__ __forceinline__ Word<kBytes> LoadWord(const unsigned char* from) {
  const uint64_t at = __cvta_generic_to_global(from);
  Word<kBytes> word;
  if constexpr (kBytes == 16) {
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.parts[0]), "=r"(word.parts[1]), "=r"(word.parts[2]),
                   "=r"(word.parts[3])
                 : "l"(at)
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(word.parts[0]), "=r"(word.parts[1])
                 : "l"(at)
                 : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word.parts[0]) : "l"(at) : "memory");
  } else if constexpr (kBytes == 2) {
    asm volatile("ld.relaxed.sys.global.u16 %0, [%1];" : "=r"(word.parts[0]) : "l"(at) : "memory");
  } else {
    asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(word.parts[0]) : "l"(at) : "memory");
  }
  return word;
}

template <int kBytes>
__device__ __forceinline__ void StoreWord(unsigned char* to, const Word<kBytes>& word) {
  const uint64_t at = __cvta_generic_to_global(to);
  if constexpr (kBytes == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(word.parts[0]),
                 "r"(word.parts[1]), "r"(word.parts[2]), "r"(word.parts[3])
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(word.parts[0]),
                 "r"(word.parts[1])
                 : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(word.parts[0]) : "memory");
  } else if constexpr (kBytes == 2) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "r"(word.parts[0]) : "memory");
  } else {
    asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"(word.parts[0]) : "memory");
  }
}

#else

template <int kBytes>
inline Word<kBytes> LoadWord(const unsigned char* from) {
  Word<kBytes> word = {};
  memcpy(word.parts, from, kBytes);
  return word;
}

template <int kBytes>
inline void StoreWord(unsigned char* to, const Word<kBytes>& word) {
  memcpy(to, word.parts, kBytes);
}

#endif  // __CUDA_ARCH__

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_MEMORY_ACCESS_H_
