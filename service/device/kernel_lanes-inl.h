// Conversion of the elements of each DataType to and from vector registers. Included once per
// instruction set (Highway).
//
// A Lane has: Stored, the element in memory; Acc, the type of the accumulator; Load and Encode,
// which convert one vector between the two; LoadFour and StoreFour, which convert four, in any
// order of the elements that is the same for both. Conversions to narrow floats round to nearest
// even.
#if defined(MCCS_SERVICE_DEVICE_KERNEL_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MCCS_SERVICE_DEVICE_KERNEL_LANES_INL_H_
#undef MCCS_SERVICE_DEVICE_KERNEL_LANES_INL_H_
#else
#define MCCS_SERVICE_DEVICE_KERNEL_LANES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The encoded vector: as many lanes as D has, each a Stored.
template <typename Stored, class D>
using Encoded = hn::Vec<hn::Rebind<Stored, D>>;

// LoadFour and StoreFour in the order of the elements, by Lane's Load and Encode.
template <class Lane>
struct InOrder {
  template <class D, typename Stored>
  static HWY_INLINE void LoadFour(D d, const Stored* HWY_RESTRICT from, hn::Vec<D>& a0,
                                  hn::Vec<D>& a1, hn::Vec<D>& a2, hn::Vec<D>& a3) {
    const size_t lanes = hn::Lanes(d);
    a0 = Lane::Load(d, from);
    a1 = Lane::Load(d, from + lanes);
    a2 = Lane::Load(d, from + 2 * lanes);
    a3 = Lane::Load(d, from + 3 * lanes);
  }

  // Calls put(tag, vectors of Stored...) once, with whole vectors that follow each other.
  template <class D, class Put>
  static HWY_INLINE void StoreFour(D d, hn::Vec<D> a0, hn::Vec<D> a1, hn::Vec<D> a2, hn::Vec<D> a3,
                                   const Put& put) {
    using Stored = typename Lane::Stored;
    const hn::Rebind<Stored, D> de;
    const auto e0 = Lane::Encode(d, a0), e1 = Lane::Encode(d, a1);
    const auto e2 = Lane::Encode(d, a2), e3 = Lane::Encode(d, a3);
#if HWY_TARGET != HWY_SCALAR
    if constexpr (2 * sizeof(Stored) == sizeof(hn::TFromD<D>)) {
      const hn::Twice<decltype(de)> dw;
      return put(dw, hn::Combine(dw, e1, e0), hn::Combine(dw, e3, e2));
    } else if constexpr (4 * sizeof(Stored) == sizeof(hn::TFromD<D>)) {
      const hn::Twice<decltype(de)> dh;
      const hn::Twice<decltype(dh)> dw;
      return put(dw, hn::Combine(dw, hn::Combine(dh, e3, e2), hn::Combine(dh, e1, e0)));
    }
#endif
    put(de, e0, e1, e2, e3);
  }
};

// Elements that are accumulated without conversion: integers, float32, float64.
template <typename T>
struct PlainLane : InOrder<PlainLane<T>> {
  using Stored = T;
  using Acc = T;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load([[maybe_unused]] D d, const Stored* HWY_RESTRICT from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Encode(D, hn::Vec<D> v) {
    return v;
  }
};

// Narrow floats in the low bits of a 32-bit lane. The callers below remove and restore the sign at
// bit 31:   | exponent: kExponentBits | mantissa: kMantissaBits |
//
// Both directions use only float32 arithmetic, so they are exact on every instruction set.
template <int kExponentBits, int kMantissaBits>
struct NarrowFloat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr uint32_t kSignShift = 31 - (kExponentBits + kMantissaBits);
  static constexpr uint32_t kMagnitudeMask = (1u << (kExponentBits + kMantissaBits)) - 1;

  // The magnitude's value. Shifting exponent and mantissa into float32's positions gives an
  // exponent that is too small by the difference of the biases. A multiplication by a power of two
  // corrects that, also for subnormals. The callers handle infinities and NaNs.
  template <class DU>
  static HWY_INLINE hn::Vec<hn::RebindToFloat<DU>> Widen(DU du, hn::Vec<DU> magnitude) {
    const hn::RebindToFloat<DU> df;
    const auto scale = hn::BitCast(df, hn::Set(du, static_cast<uint32_t>(127 + 127 - kBias) << 23));
    return hn::Mul(hn::BitCast(df, hn::ShiftLeft<kShift>(magnitude)), scale);
  }

  // The magnitude nearest to the float32 with bits `abs`. The result overflows for values that are
  // too large; the callers replace it.
  template <class DU>
  static HWY_INLINE hn::Vec<DU> Narrow(DU du, hn::Vec<DU> abs) {
    const hn::RebindToFloat<DU> df;
    // Subnormal results: adding a float whose last place is the smallest subnormal makes the
    // adder do the rounding.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 23 + 1 - kBias - kMantissaBits) << 23;
    const auto magic = hn::Set(du, kMagic);
    const auto subnormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, abs), hn::BitCast(df, magic))), magic);
    // Normal results: change the bias, add just under half of the last place, and one more if the
    // kept mantissa is odd.
    constexpr uint32_t kRebias = static_cast<uint32_t>(kBias - 127) << 23;
    const auto odd = hn::And(hn::ShiftRight<kShift>(abs), hn::Set(du, 1u));
    const auto rounded =
        hn::Add(hn::Add(abs, hn::Set(du, kRebias + (1u << (kShift - 1)) - 1)), odd);
    const auto normal = hn::ShiftRight<kShift>(rounded);
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + 1 - kBias) << 23;
    return hn::IfThenElse(hn::Lt(abs, hn::Set(du, kSmallestNormal)), subnormal, normal);
  }
};

inline constexpr uint32_t kFloatSign = 0x80000000u;
inline constexpr uint32_t kFloatInfinity = 0x7f800000u;

// Lanes hold magnitudes below 2^31, so signed comparison and demotion are correct for them.
template <class DU>
HWY_INLINE auto AsSigned(DU, hn::Vec<DU> v) {
  return hn::BitCast(hn::RebindToSigned<DU>(), v);
}

struct Float16Lane : InOrder<Float16Lane> {
  using Stored = uint16_t;
  using Acc = float;
  using Format = NarrowFloat<5, 10>;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load([[maybe_unused]] D d, const Stored* HWY_RESTRICT from) {
    const hn::Rebind<uint16_t, D> d16;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(d16, from)));
#else
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(d16, from));
    const auto magnitude = hn::And(bits, hn::Set(du, Format::kMagnitudeMask));
    const auto sign = hn::ShiftLeft<16>(hn::Sub(bits, magnitude));
    const auto special =
        hn::Or(hn::ShiftLeft<Format::kShift>(magnitude), hn::Set(du, kFloatInfinity));
    const auto value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x7c00u)),
                                      hn::BitCast(du, Format::Widen(du, magnitude)), special);
    return hn::BitCast(d, hn::Or(value, sign));
#endif
  }

  template <class D>
  static HWY_INLINE Encoded<Stored, D> Encode(D, hn::Vec<D> v) {
    const hn::Rebind<uint16_t, D> d16;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::BitCast(d16, hn::DemoteTo(dh, v));
#else
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto abs = hn::AndNot(hn::Set(du, kFloatSign), bits);
    const auto sign = hn::ShiftRight<16>(hn::Sub(bits, abs));
    // A NaN keeps its leading payload bits and becomes quiet, as in the hardware's conversion.
    const auto nan = hn::Or(hn::And(hn::ShiftRight<Format::kShift>(abs), hn::Set(du, 0x3ffu)),
                            hn::Set(du, 0x7e00u));
    auto result = hn::Min(Format::Narrow(du, abs), hn::Set(du, 0x7c00u));
    result = hn::IfThenElse(hn::Gt(abs, hn::Set(du, kFloatInfinity)), nan, result);
    return hn::DemoteTo(d16, AsSigned(du, hn::Or(result, sign)));
#endif
  }
};

// The upper half of a float32. A vector of pairs is two vectors of float32, of the elements with
// even and with odd indices, without a shuffle.
struct Bfloat16Lane : InOrder<Bfloat16Lane> {
  using Stored = uint16_t;
  using Acc = float;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load([[maybe_unused]] D d, const Stored* HWY_RESTRICT from) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> d16;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  }

  template <class D>
  static HWY_INLINE Encoded<Stored, D> Encode(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> d16;
    return hn::DemoteTo(d16, AsSigned(du, hn::ShiftRight<16>(Rounded(d, v))));
  }

#if HWY_TARGET != HWY_SCALAR
  template <class D>
  static HWY_INLINE void LoadFour(D d, const Stored* HWY_RESTRICT from, hn::Vec<D>& a0,
                                  hn::Vec<D>& a1, hn::Vec<D>& a2, hn::Vec<D>& a3) {
    LoadTwo(d, from, a0, a1);
    LoadTwo(d, from + 2 * hn::Lanes(d), a2, a3);
  }

  template <class D, class Put>
  static HWY_INLINE void StoreFour(D d, hn::Vec<D> a0, hn::Vec<D> a1, hn::Vec<D> a2, hn::Vec<D> a3,
                                   const Put& put) {
    const hn::Repartition<uint16_t, D> d16;
    put(d16, hn::BitCast(d16, Joined(d, a0, a1)), hn::BitCast(d16, Joined(d, a2, a3)));
  }
#endif

 private:
  // In the upper 16 bits; the lower ones are undefined. The processor's own conversion flushes
  // subnormals, so it is not used.
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Rounded(D, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::IfThenElse(nan, hn::Set(du, 0x7fff0000u), rounded);
  }

#if HWY_TARGET != HWY_SCALAR
  template <class D>
  static HWY_INLINE void LoadTwo(D d, const Stored* HWY_RESTRICT from, hn::Vec<D>& even,
                                 hn::Vec<D>& odd) {
    const hn::RebindToUnsigned<D> du;
    const auto pairs = hn::BitCast(du, hn::LoadU(hn::Repartition<uint16_t, D>(), from));
    even = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
    odd = hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xffff0000u)));
  }

  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Joined(D d, hn::Vec<D> even, hn::Vec<D> odd) {
    const hn::RebindToUnsigned<D> du;
    return hn::Or(hn::ShiftRight<16>(Rounded(d, even)),
                  hn::And(Rounded(d, odd), hn::Set(du, 0xffff0000u)));
  }
#endif
};

// float8, to and from float32 as CUDA's __nv_cvt_float_to_fp8 with __NV_SATFINITE: values that are
// too large, including infinity, become the largest finite number; every NaN becomes 0x7f.
// `kLargest`: magnitude of the largest finite number. `kInfinity`: that of infinity, or one above
// all numbers.
// LoadFour and StoreFour work with values times 2^-kDownscaleBits: 0, or 8, which saves float8e4m3
// two multiplications. Sums and extremes permit it; products do not.
template <int kExponentBits, int kMantissaBits, uint32_t kLargest, uint32_t kInfinity,
          int kDownscaleBits>
struct Float8Lane
    : InOrder<Float8Lane<kExponentBits, kMantissaBits, kLargest, kInfinity, kDownscaleBits>> {
  using Stored = uint8_t;
  using Acc = float;
  using Format = NarrowFloat<kExponentBits, kMantissaBits>;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load([[maybe_unused]] D d, const Stored* HWY_RESTRICT from) {
    const hn::Rebind<uint8_t, D> d8;
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(d8, from));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fu));
    const auto sign = hn::ShiftLeft<24>(hn::Sub(bits, magnitude));
    auto value = hn::BitCast(du, Format::Widen(du, magnitude));
    const auto largest = hn::Set(du, kLargest);
    const auto special = hn::IfThenElse(hn::Eq(magnitude, hn::Set(du, kInfinity)),
                                        hn::Set(du, kFloatInfinity), hn::Set(du, 0x7fc00000u));
    value = hn::IfThenElse(hn::Gt(magnitude, largest), special, value);
    return hn::BitCast(d, hn::Or(value, sign));
  }

  template <class D>
  static HWY_INLINE Encoded<Stored, D> Encode(D, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint8_t, D> d8;
    const auto bits = hn::BitCast(du, v);
    const auto abs = hn::AndNot(hn::Set(du, kFloatSign), bits);
    const auto sign = hn::ShiftRight<24>(hn::Sub(bits, abs));
    const auto finite = hn::Or(hn::Min(Format::Narrow(du, abs), hn::Set(du, kLargest)), sign);
    const auto result =
        hn::IfThenElse(hn::Gt(abs, hn::Set(du, kFloatInfinity)), hn::Set(du, 0x7fu), finite);
    return hn::DemoteTo(d8, AsSigned(du, result));
  }

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // Through float16, which the processor converts. The upper byte of a float16 is a float8e5m2. A
  // float8e4m3 with its magnitude one bit further right is 2^-8 times its value as a float16. A
  // vector of pairs of bytes is two vectors of float16, of the bytes with even and odd indices.
  template <class D>
  static HWY_INLINE void LoadFour(D d, const Stored* HWY_RESTRICT from, hn::Vec<D>& a0,
                                  hn::Vec<D>& a1, hn::Vec<D>& a2, hn::Vec<D>& a3) {
    const hn::Repartition<uint16_t, D> d16;
    const auto pairs = hn::BitCast(d16, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
    Widen(d, hn::ShiftLeft<8>(pairs), a0, a1);
    Widen(d, hn::And(pairs, hn::Set(d16, uint16_t{0xff00})), a2, a3);
  }

  template <class D, class Put>
  static HWY_INLINE void StoreFour(D d, hn::Vec<D> a0, hn::Vec<D> a1, hn::Vec<D> a2, hn::Vec<D> a3,
                                   const Put& put) {
    const hn::Repartition<uint16_t, D> d16;
    const hn::Repartition<uint8_t, D> d8;
    const auto bytes = hn::Or(hn::ShiftRight<8>(Narrow(d, a0, a1)), Narrow(d, a2, a3));
    put(d8, hn::BitCast(d8, bytes));
  }

 private:
  static constexpr bool kE4m3 = kExponentBits == 4;

  // `high`: float8 in the upper byte of each lane; the lower one is 0.
  template <class D, class V16>
  static HWY_INLINE void Widen(D d, V16 high, hn::Vec<D>& lower, hn::Vec<D>& upper) {
    const hn::Repartition<uint16_t, D> d16;
    const hn::Half<decltype(d16)> d16_half;
    const hn::Rebind<hwy::float16_t, D> dh;
    V16 half = high;
    if constexpr (kE4m3) {
      const auto nan =
          hn::Eq(hn::And(high, hn::Set(d16, uint16_t{0x7f00})), hn::Set(d16, uint16_t{0x7f00}));
      const hn::RebindToSigned<decltype(d16)> di16;
      half = hn::And(hn::BitCast(d16, hn::ShiftRight<1>(hn::BitCast(di16, high))),
                     hn::Set(d16, uint16_t{0xbf80}));
      half = hn::IfThenElse(nan, hn::Set(d16, uint16_t{0x7e00}), half);
    }
    lower = hn::PromoteTo(d, hn::BitCast(dh, hn::LowerHalf(d16_half, half)));
    upper = hn::PromoteTo(d, hn::BitCast(dh, hn::UpperHalf(d16_half, half)));
    if constexpr (kE4m3 && kDownscaleBits == 0) {
      lower = hn::Mul(lower, hn::Set(d, 256.0f));
      upper = hn::Mul(upper, hn::Set(d, 256.0f));
    }
  }

  // The inverse of Widen, rounded; the lower byte of each lane is 0.
  template <class D>
  static HWY_INLINE hn::Vec<hn::Repartition<uint16_t, D>> Narrow(D d, hn::Vec<D> lower,
                                                                 hn::Vec<D> upper) {
    const hn::Repartition<uint16_t, D> d16;
    const hn::Half<decltype(d16)> d16_half;
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto half = hn::Combine(d16, hn::BitCast(d16_half, hn::DemoteTo(dh, Rounded(d, upper))),
                                  hn::BitCast(d16_half, hn::DemoteTo(dh, Rounded(d, lower))));
    if constexpr (kE4m3) {
      // Bit 14 is 0.
      return hn::Or(hn::ShiftLeft<1>(half), hn::And(half, hn::Set(d16, uint16_t{0x8000})));
    }
    return half;
  }

  // The value that the float16 conversion takes to the float8 without rounding.
  //
  // The sum of a float x and 1.5·2^(e + kShift) has 2^e times the smallest step of float8 as its
  // last place, if 2^e is the power of two of x, or of the smallest normal number. So the adder
  // rounds x to float8's precision, to nearest even.
  template <class D>
  static HWY_INLINE hn::Vec<D> Rounded(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    constexpr uint32_t kSmallestNormal = kZeroExponent + (uint32_t{1} << 23);
    constexpr uint32_t kMagic = (static_cast<uint32_t>(Format::kShift) << 23) | 0x400000u;
    const auto largest = hn::BitCast(d, hn::Set(du, kLargestFloat));
    // NaN becomes the largest number here, and a NaN again below.
    const auto finite = hn::Max(hn::Min(v, largest), hn::Neg(largest));
    const auto bits = hn::BitCast(du, finite);
    const auto exponent =
        hn::Max(hn::And(bits, hn::Set(du, kFloatInfinity)), hn::Set(du, kSmallestNormal));
    const auto magic = hn::BitCast(d, hn::Add(exponent, hn::Set(du, kMagic)));
    // The sign of a zero would be lost.
    auto rounded = hn::Or(hn::Sub(hn::Add(finite, magic), magic),
                          hn::BitCast(d, hn::And(bits, hn::Set(du, kFloatSign))));
    if constexpr (kE4m3 && kDownscaleBits == 0) rounded = hn::Mul(rounded, hn::Set(d, 1.0f / 256));
    return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(du, kFloatNan)), rounded);
  }

  // The float32 below the smallest normal number's power of two, as LoadFour scales it.
  static constexpr uint32_t kZeroExponent =
      static_cast<uint32_t>(127 - Format::kBias - kDownscaleBits) << 23;
  static constexpr uint32_t kLargestFloat = (kLargest << Format::kShift) + kZeroExponent;
  // A float32 whose float16 has the magnitude of float8's NaN, 0x7f.
  static constexpr uint32_t kFloatNan = kE4m3 ? 0x3ff00000u /* 1.875 */ : 0x7fe00000u;
#endif
};

// No infinity; 0x7f is the only NaN.
template <int kDownscaleBits>
using Float8E4m3Lane = Float8Lane<4, 3, 0x7e, 0x80, kDownscaleBits>;
using Float8E5m2Lane = Float8Lane<5, 2, 0x7b, 0x7c, 0>;

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
