// Conversion of the elements of each DataType to and from vector registers. Included once per
// instruction set (Highway).
//
// A Lane has: Stored, the element in memory; Acc, the type of the accumulator; Load and Encode,
// which convert between the two. Conversions to narrow floats round to nearest even.
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

// Elements that are accumulated without conversion: integers, float32, float64.
template <typename T>
struct PlainLane {
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

struct Float16Lane {
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

struct Bfloat16Lane {
  using Stored = uint16_t;
  using Acc = float;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load([[maybe_unused]] D d, const Stored* HWY_RESTRICT from) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> d16;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  }

  // The processor's own conversion flushes subnormals, so it is not used.
  template <class D>
  static HWY_INLINE Encoded<Stored, D> Encode(D, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> d16;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd));
    const auto abs = hn::AndNot(hn::Set(du, kFloatSign), bits);
    const auto result =
        hn::IfThenElse(hn::Gt(abs, hn::Set(du, kFloatInfinity)), hn::Set(du, 0x7fffu), rounded);
    return hn::DemoteTo(d16, AsSigned(du, result));
  }
};

// float8, to and from float32 as CUDA's __nv_cvt_float_to_fp8 with __NV_SATFINITE: values that are
// too large, including infinity, become the largest finite number; every NaN becomes 0x7f.
// `kLargest`: magnitude of the largest finite number. `kInfinity`: that of infinity, or one above
// all numbers.
template <int kExponentBits, int kMantissaBits, uint32_t kLargest, uint32_t kInfinity>
struct Float8Lane {
  using Stored = uint8_t;
  using Acc = float;
  using Format = NarrowFloat<kExponentBits, kMantissaBits>;

  template <class D>
  static HWY_INLINE hn::Vec<D> Load([[maybe_unused]] D d, const Stored* HWY_RESTRICT from) {
    const hn::Rebind<uint8_t, D> d8;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    // Through float16, which has at least as many exponent bits and a conversion in hardware. If
    // float16 has more, a multiplication corrects the bias, and the NaN is made explicitly.
    const hn::Rebind<uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto bits = hn::PromoteTo(d16, hn::LoadU(d8, from));
    if constexpr (kExponentBits == 5) {
      return hn::PromoteTo(d, hn::BitCast(dh, hn::ShiftLeft<8>(bits)));
    } else {
      const auto magnitude = hn::And(bits, hn::Set(d16, uint16_t{0x7f}));
      const auto half = hn::IfThenElse(
          hn::Eq(magnitude, hn::Set(d16, uint16_t{0x7f})), hn::Set(d16, uint16_t{0x7e00}),
          hn::Or(hn::ShiftLeft<8>(hn::Sub(bits, magnitude)), hn::ShiftLeft<7>(magnitude)));
      return hn::Mul(hn::PromoteTo(d, hn::BitCast(dh, half)), hn::Set(d, 256.0f));
    }
#else
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
#endif
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
};

// No infinity; 0x7f is the only NaN.
using Float8E4m3Lane = Float8Lane<4, 3, 0x7e, 0x80>;
using Float8E5m2Lane = Float8Lane<5, 2, 0x7b, 0x7c>;

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
