// Conversion of the elements of each DataType to and from the type in which they are accumulated.
//
// A format has: Stored, the element in memory; Acc, the type of the accumulator; Decode and Encode
// for one element, DecodePair and EncodePair for two that follow each other in memory (floats of 16
// and 8 bits only). Encode rounds to nearest even.
//
// The arithmetic below is the definition, for the host and for GPUs without an instruction for it.
// Where the GPU has one, the pairs use it. Its result is the same, except for the bits of a float16
// NaN: tests/unit/kernels/element_formats_test.cc compares the definition with CUDA's own.
#ifndef MCCS_KERNELS_ELEMENT_FORMATS_H_
#define MCCS_KERNELS_ELEMENT_FORMATS_H_

#include <cstdint>

#include "kernels/portable.h"
#include "proto/operation.h"

namespace mccs::kernels {

// Elements that are accumulated without conversion: integers, float32, float64.
template <typename T>
struct PlainFormat {
  using Stored = T;
  using Acc = T;
  static MCCS_INLINE Acc Decode(Stored value) { return value; }
  static MCCS_INLINE Stored Encode(Acc value) { return value; }
};

inline constexpr int32_t kFloatInfinity = 0x7f800000;
inline constexpr int32_t kFloatMagnitude = 0x7fffffff;

// Magnitudes of narrow floats in the low bits of an integer:
//   | exponent: kExponentBits | mantissa: kMantissaBits |
//
// Both directions use only float32 arithmetic without branches and variable shifts, so that every
// instruction set has them as vectors. Magnitudes are below 2^31; comparisons are signed.
template <int kExponentBits, int kMantissaBits>
struct NarrowMagnitude {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kShift = 23 - kMantissaBits;

  // Shifting exponent and mantissa into float32's positions gives an exponent that is too small by
  // the difference of the biases. A multiplication by a power of two corrects that, also for
  // subnormals. The callers handle infinities and NaNs.
  static MCCS_INLINE int32_t Widen(int32_t magnitude) {
    const auto scale = BitsOf<float>(int32_t{127 + 127 - kBias} << 23);
    return BitsOf<int32_t>(BitsOf<float>(magnitude << kShift) * scale);
  }

  // The magnitude nearest to the float32 with bits `abs`. The result overflows for values that are
  // too large; the callers replace it.
  static MCCS_INLINE int32_t Narrow(int32_t abs) {
    // Subnormal results: adding a float whose last place is the smallest subnormal makes the adder
    // do the rounding.
    constexpr int32_t kMagic = (127 + 23 + 1 - kBias - kMantissaBits) << 23;
    const int32_t subnormal = BitsOf<int32_t>(BitsOf<float>(abs) + BitsOf<float>(kMagic)) - kMagic;
    // Normal results: change the bias, add just under half of the last place, and one more if the
    // kept mantissa is odd.
    constexpr int32_t kRebias = (127 - kBias) * (1 << 23);
    const int32_t odd = (abs >> kShift) & 1;
    const int32_t normal = (abs - kRebias + (1 << (kShift - 1)) - 1 + odd) >> kShift;
    constexpr int32_t kSmallestNormal = (127 + 1 - kBias) << 23;
    return abs < kSmallestNormal ? subnormal : normal;
  }
};

struct Float16Format {
  using Stored = uint16_t;
  using Acc = float;
  using Magnitude = NarrowMagnitude<5, 10>;
  static constexpr int32_t kInfinity = 0x7c00;

  static MCCS_INLINE float Decode(uint16_t bits) {
    const int32_t magnitude = bits & 0x7fff;
    const int32_t special = (magnitude << Magnitude::kShift) | kFloatInfinity;
    const int32_t value = magnitude < kInfinity ? Magnitude::Widen(magnitude) : special;
    return BitsOf<float>(static_cast<uint32_t>(value) | uint32_t{bits & 0x8000u} << 16);
  }

  // A NaN keeps its leading payload bits and becomes quiet.
  static MCCS_INLINE uint16_t Encode(float value) {
    const auto bits = BitsOf<uint32_t>(value);
    const auto abs = static_cast<int32_t>(bits & kFloatMagnitude);
    const int32_t nan = ((abs >> Magnitude::kShift) & 0x3ff) | 0x7e00;
    const int32_t narrow = Magnitude::Narrow(abs);
    const int32_t finite = narrow < kInfinity ? narrow : kInfinity;
    const int32_t result = abs > kFloatInfinity ? nan : finite;
    return static_cast<uint16_t>(static_cast<uint32_t>(result) | (bits >> 16 & 0x8000u));
  }

  static MCCS_INLINE void DecodePair(uint32_t pair, float& low, float& high) {
#ifdef __CUDA_ARCH__
    asm("cvt.f32.f16 %0, %1;" : "=f"(low) : "h"(static_cast<uint16_t>(pair)));
    asm("cvt.f32.f16 %0, %1;" : "=f"(high) : "h"(static_cast<uint16_t>(pair >> 16)));
#else
    low = Decode(static_cast<uint16_t>(pair));
    high = Decode(static_cast<uint16_t>(pair >> 16));
#endif
  }

  static MCCS_INLINE uint32_t EncodePair(float low, float high) {
#ifdef __CUDA_ARCH__
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return Encode(low) | uint32_t{Encode(high)} << 16;
#endif
  }
};

// The upper half of a float32. Every NaN becomes 0x7fff.
struct Bfloat16Format {
  using Stored = uint16_t;
  using Acc = float;

  static MCCS_INLINE float Decode(uint16_t bits) { return BitsOf<float>(uint32_t{bits} << 16); }

  static MCCS_INLINE uint16_t Encode(float value) {
    const auto bits = BitsOf<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const auto abs = static_cast<int32_t>(bits & kFloatMagnitude);
    return static_cast<uint16_t>(abs > kFloatInfinity ? 0x7fffu : rounded);
  }

  static MCCS_INLINE void DecodePair(uint32_t pair, float& low, float& high) {
    low = BitsOf<float>(pair << 16);
    high = BitsOf<float>(pair & 0xffff0000u);
  }

  static MCCS_INLINE uint32_t EncodePair(float low, float high) {
#ifdef __CUDA_ARCH__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return Encode(low) | uint32_t{Encode(high)} << 16;
#endif
  }
};

// As CUDA's __nv_cvt_float_to_fp8 with __NV_SATFINITE: values that are too large, including
// infinity, become the largest finite number; every NaN becomes 0x7f.
// `kLargest`: magnitude of the largest finite number. `kInfinity`: that of infinity, or one above
// all numbers.
template <int kExponentBits, int kMantissaBits, int32_t kLargest, int32_t kInfinity>
struct Float8Format {
  using Stored = uint8_t;
  using Acc = float;
  using Magnitude = NarrowMagnitude<kExponentBits, kMantissaBits>;

  static MCCS_INLINE float Decode(uint8_t bits) {
    const int32_t magnitude = bits & 0x7f;
    const int32_t special = magnitude == kInfinity ? kFloatInfinity : 0x7fc00000;
    const int32_t value = magnitude > kLargest ? special : Magnitude::Widen(magnitude);
    return BitsOf<float>(static_cast<uint32_t>(value) | uint32_t{bits & 0x80u} << 24);
  }

  static MCCS_INLINE uint8_t Encode(float value) {
    const auto bits = BitsOf<uint32_t>(value);
    const auto abs = static_cast<int32_t>(bits & kFloatMagnitude);
    const int32_t narrow = Magnitude::Narrow(abs);
    const int32_t finite = narrow < kLargest ? narrow : kLargest;
    const uint32_t number = static_cast<uint32_t>(finite) | (bits >> 24 & 0x80u);
    return static_cast<uint8_t>(abs > kFloatInfinity ? 0x7fu : number);
  }

  // Since sm_89. The conversion to float16 is exact.
  static MCCS_INLINE void DecodePair(uint32_t pair, float& low, float& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint32_t halves;
    if constexpr (kExponentBits == 4) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
    }
    Float16Format::DecodePair(halves, low, high);
#else
    low = Decode(static_cast<uint8_t>(pair));
    high = Decode(static_cast<uint8_t>(pair >> 8));
#endif
  }

  static MCCS_INLINE uint32_t EncodePair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint16_t pair;
    if constexpr (kExponentBits == 4) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    }
    return pair;
#else
    return Encode(low) | uint32_t{Encode(high)} << 8;
#endif
  }
};

// No infinity; 0x7f is the only NaN.
using Float8E4m3Format = Float8Format<4, 3, 0x7e, 0x80>;
using Float8E5m2Format = Float8Format<5, 2, 0x7b, 0x7c>;

// Calls run(Format()) with the format of `type`.
template <class Run>
MCCS_INLINE void WithFormat(DataType type, const Run& run) {
  switch (type) {
    case DataType::kInt8:
      return run(PlainFormat<int8_t>());
    case DataType::kUint8:
      return run(PlainFormat<uint8_t>());
    case DataType::kInt32:
      return run(PlainFormat<int32_t>());
    case DataType::kUint32:
      return run(PlainFormat<uint32_t>());
    case DataType::kInt64:
      return run(PlainFormat<int64_t>());
    case DataType::kUint64:
      return run(PlainFormat<uint64_t>());
    case DataType::kFloat16:
      return run(Float16Format());
    case DataType::kFloat32:
      return run(PlainFormat<float>());
    case DataType::kFloat64:
      return run(PlainFormat<double>());
    case DataType::kBfloat16:
      return run(Bfloat16Format());
    case DataType::kFloat8e4m3:
      return run(Float8E4m3Format());
    case DataType::kFloat8e5m2:
      return run(Float8E5m2Format());
  }
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_ELEMENT_FORMATS_H_
