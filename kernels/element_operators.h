// Sum, product, minimum, maximum and division of accumulated values.
#ifndef MCCS_KERNELS_ELEMENT_OPERATORS_H_
#define MCCS_KERNELS_ELEMENT_OPERATORS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/portable.h"

namespace mccs::kernels {

// Integers wrap. Floats are rounded after each operation: on the device the intrinsics say so, on
// the host -ffp-contract=off. A product and a sum are never one fused instruction.
struct SumOf {
  template <typename T>
  static MCCS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
    } else {
#ifdef __CUDA_ARCH__
      if constexpr (sizeof(T) == 4) return __fadd_rn(a, b);
      if constexpr (sizeof(T) == 8) return __dadd_rn(a, b);
#else
      return a + b;
#endif
    }
  }
};

struct ProductOf {
  template <typename T>
  static MCCS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(static_cast<Bits>(a) * static_cast<Bits>(b)));
    } else {
#ifdef __CUDA_ARCH__
      if constexpr (sizeof(T) == 4) return __fmul_rn(a, b);
      if constexpr (sizeof(T) == 8) return __dmul_rn(a, b);
#else
      return a * b;
#endif
    }
  }
};

// The smaller (larger) one; of a number and a NaN the number; -0 is smaller than +0. So the order
// of the sources does not matter.
template <bool kSmaller>
struct ExtremeOf {
  template <typename T>
  static MCCS_INLINE T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return (kSmaller ? b < a : a < b) ? b : a;
    } else {
#ifdef __CUDA_ARCH__
      // One instruction. The PTX ISA defines min.f32 and max.f32 like this, -0 included.
      if constexpr (sizeof(T) == 4) return kSmaller ? fminf(a, b) : fmaxf(a, b);
#endif
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      const auto a_bits = BitsOf<Bits>(a), b_bits = BitsOf<Bits>(b);
      const Bits of_equals = kSmaller ? a_bits | b_bits : a_bits & b_bits;
      Bits result = (kSmaller ? b < a : b > a) ? b_bits : a_bits;
      result = a == b ? of_equals : result;
      return BitsOf<T>(a != a ? b_bits : result);
    }
  }
};

using MinOf = ExtremeOf<true>;
using MaxOf = ExtremeOf<false>;

// Division of an accumulated integer, towards zero. Floats are not divided.
template <typename T>
class Divider {
 public:
  // REQUIRES: divisor ≠ 0.
  explicit MCCS_HOST_DEVICE Divider(uint64_t divisor)
      : divisor_(divisor), reciprocal_(~uint64_t{0} / divisor + 1) {}

  MCCS_INLINE T Apply(T value) const {
    if constexpr (std::is_floating_point_v<T>) {
      return value;
    } else if constexpr (std::is_signed_v<T>) {
      const auto wide = static_cast<int64_t>(value);
      const auto bits = static_cast<uint64_t>(wide);
      const uint64_t quotient = OfMagnitude(wide < 0 ? uint64_t{0} - bits : bits);
      return static_cast<T>(wide < 0 ? uint64_t{0} - quotient : quotient);
    } else {
      return static_cast<T>(OfMagnitude(value));
    }
  }

 private:
  MCCS_INLINE uint64_t OfMagnitude(uint64_t value) const {
    if constexpr (sizeof(T) == 8) {
      return value / divisor_;
    } else {
      // With r = 2^64 / divisor, rounded up, value · r / 2^64 exceeds value / divisor by less than
      // 1 / divisor, since value < 2^32, for divisors up to 2^32. For larger ones r ≤ 2^32, and the
      // result is 0, as it should be. Divisor 1 makes r = 2^64, which is 0.
      if (reciprocal_ == 0) return value;
#ifdef __CUDA_ARCH__
      return __umul64hi(value, reciprocal_);
#else
      return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * reciprocal_ >> 64);
#endif
    }
  }

  uint64_t divisor_;
  uint64_t reciprocal_;  // modulo 2^64
};

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_ELEMENT_OPERATORS_H_
