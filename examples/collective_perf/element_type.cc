#include "collective_perf/element_type.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace collective_perf {
namespace {

constexpr double PowerOfTwo(int exponent) {
  return exponent == 0 ? 1.0 : 2.0 * PowerOfTwo(exponent - 1);
}

constexpr ElementType kElementTypes[] = {
    {"int8", "", ncclInt8, 1, NumberKind::kSigned, 0, 0, 127},
    {"uint8", "", ncclUint8, 1, NumberKind::kUnsigned, 0, 0, 255},
    {"int32", "", ncclInt32, 4, NumberKind::kSigned, 0, 0, PowerOfTwo(30)},
    {"uint32", "", ncclUint32, 4, NumberKind::kUnsigned, 0, 0, PowerOfTwo(31)},
    {"int64", "", ncclInt64, 8, NumberKind::kSigned, 0, 0, PowerOfTwo(52)},
    {"uint64", "", ncclUint64, 8, NumberKind::kUnsigned, 0, 0, PowerOfTwo(52)},
    {"half", "float16", ncclFloat16, 2, NumberKind::kFloat, 5, 10, PowerOfTwo(11)},
    {"float", "float32", ncclFloat32, 4, NumberKind::kFloat, 8, 23, PowerOfTwo(24)},
    {"double", "float64", ncclFloat64, 8, NumberKind::kFloat, 11, 52, PowerOfTwo(52)},
    {"bfloat16", "", ncclBfloat16, 2, NumberKind::kFloat, 8, 7, PowerOfTwo(8)},
    {"f8e4m3", "float8e4m3", ncclFloat8e4m3, 1, NumberKind::kFloat, 4, 3, PowerOfTwo(4)},
    {"f8e5m2", "float8e5m2", ncclFloat8e5m2, 1, NumberKind::kFloat, 5, 2, PowerOfTwo(3)},
};

int Bias(const ElementType& type) { return (1 << (type.exponent_bits - 1)) - 1; }

// sign | exponent | mantissa, an IEEE layout of any width.
uint64_t FloatBits(const ElementType& type, double value) {
  uint64_t sign = std::signbit(value) ? 1 : 0;
  double magnitude = std::fabs(value);
  uint64_t fields = 0;
  if (magnitude != 0) {
    int lowest = 1 - Bias(type);
    int exponent = std::max(std::ilogb(magnitude), lowest);
    auto scaled = static_cast<uint64_t>(std::ldexp(magnitude, type.mantissa_bits - exponent));
    // The hidden bit, if any, carries into the exponent field and makes it biased.
    fields = (static_cast<uint64_t>(exponent - lowest) << type.mantissa_bits) + scaled;
  }
  return (sign << (type.exponent_bits + type.mantissa_bits)) | fields;
}

double FloatFromBits(const ElementType& type, uint64_t bits) {
  uint64_t mantissa = bits & ((uint64_t{1} << type.mantissa_bits) - 1);
  int top = (1 << type.exponent_bits) - 1;
  int exponent = static_cast<int>(bits >> type.mantissa_bits) & top;
  bool negative = (bits >> (type.exponent_bits + type.mantissa_bits)) & 1;
  double magnitude;
  // E4M3 has no infinities: only its last pattern is NaN.
  bool finite_only = type.nccl == ncclFloat8e4m3;
  if (exponent == top && (!finite_only || mantissa == 7)) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else {
    double hidden = exponent == 0 ? 0 : std::ldexp(1.0, type.mantissa_bits);
    magnitude = std::ldexp(hidden + static_cast<double>(mantissa),
                           std::max(exponent, 1) - Bias(type) - type.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

}  // namespace

std::span<const ElementType> ElementTypes() { return kElementTypes; }

// All platforms of CUDA are little-endian: the low bytes of the pattern come first.
void Encode(const ElementType& type, double value, std::byte* out) {
  uint64_t bits = type.kind == NumberKind::kFloat
                      ? FloatBits(type, value)
                      : static_cast<uint64_t>(static_cast<int64_t>(value));
  std::memcpy(out, &bits, type.bytes);
}

double Decode(const ElementType& type, const std::byte* in) {
  uint64_t bits = 0;
  std::memcpy(&bits, in, type.bytes);
  switch (type.kind) {
    case NumberKind::kFloat:
      return FloatFromBits(type, bits);
    case NumberKind::kUnsigned:
      return static_cast<double>(bits);
    case NumberKind::kSigned:
      break;
  }
  int unused_bits = 64 - 8 * static_cast<int>(type.bytes);
  return static_cast<double>(static_cast<int64_t>(bits << unused_bits) >> unused_bits);
}

}  // namespace collective_perf
