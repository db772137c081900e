#include "service/communicator/schedule/scalar_encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mccs {
namespace {

// A float format of `exponent_bits` and `mantissa_bits` with the usual bias.
uint64_t EncodeSmall(double value, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent;
  std::frexp(value, &exponent);                 // value = f × 2^exponent, 0.5 ≤ f < 1
  exponent = std::max(exponent - 1, 1 - bias);  // below: the type's subnormals
  // In units of the last place: at most mantissa_bits + 1 bits, or the next power of two. nearbyint
  // rounds ties to even; a carry out of the mantissa correctly increments the exponent.
  const double units = std::nearbyint(std::ldexp(value, mantissa_bits - exponent));
  const uint64_t significand = static_cast<uint64_t>(units);
  return (static_cast<uint64_t>(exponent + bias - 1) << mantissa_bits) + significand;
}

}  // namespace

uint64_t EncodeScalar(DataType type, double value) {
  switch (type) {
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(value);
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DataType::kFloat16:
      return EncodeSmall(value, 5, 10);
    case DataType::kBfloat16:
      return EncodeSmall(value, 8, 7);
    case DataType::kFloat8e4m3:
      return EncodeSmall(value, 4, 3);
    case DataType::kFloat8e5m2:
      return EncodeSmall(value, 5, 2);
    default:
      return 0;
  }
}

}  // namespace mccs
