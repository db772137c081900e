// One source for host (GCC) and device (nvcc): qualifiers of functions and loops.
//
// MCCS_HOST_DEVICE: a function for both. MCCS_INLINE, MCCS_NO_INLINE: the same, always or never
// inlined.
// MCCS_UNROLL: before a loop with a constant number of iterations, which disappears. On the device,
// an array that only such loops index stays in registers. MCCS_NO_UNROLL: before a loop whose code
// the device compiler must not copy.
#ifndef MCCS_KERNELS_PORTABLE_H_
#define MCCS_KERNELS_PORTABLE_H_

#include <cstring>

#include "base/portable.h"

#ifdef __CUDACC__
#define MCCS_INLINE __host__ __device__ __forceinline__
#define MCCS_NO_INLINE __host__ __device__ __noinline__
#define MCCS_UNROLL _Pragma("unroll")
#define MCCS_NO_UNROLL _Pragma("unroll 1")
#else
#define MCCS_INLINE inline __attribute__((always_inline))
#define MCCS_NO_INLINE __attribute__((noinline))
#define MCCS_UNROLL _Pragma("GCC unroll 16")
#define MCCS_NO_UNROLL
#endif

namespace mccs::kernels {

// std::bit_cast, which nvcc accepts in host code only.
template <typename To, typename From>
MCCS_INLINE To BitsOf(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_PORTABLE_H_
