#include "tests/unit/device/reference_numbers.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace mccs {
namespace {

// Sum, product, minimum and maximum of two values of an arithmetic type.
template <typename T>
T CombineValues(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      if (std::isnan(a)) return b;
      if (std::isnan(b)) return a;
      if (a == b) return (std::signbit(a) == (op == ReduceOp::kMin)) ? a : b;
      return (a < b) == (op == ReduceOp::kMin) ? a : b;
    }
    return op == ReduceOp::kSum ? a + b : a * b;
  } else {
    const auto wide_a = static_cast<uint64_t>(a);
    const auto wide_b = static_cast<uint64_t>(b);
    switch (op) {
      case ReduceOp::kSum:
        return static_cast<T>(wide_a + wide_b);
      case ReduceOp::kProd:
        return static_cast<T>(wide_a * wide_b);
      case ReduceOp::kMin:
        return a < b ? a : b;
      default:
        return a > b ? a : b;
    }
  }
}

template <typename T>
T Accumulate(const MemOp& op, const std::vector<T>& inputs, const std::vector<T>& scales) {
  T result{};
  for (size_t k = 0; k < inputs.size(); ++k) {
    volatile T value = inputs[k];  // volatile: every product is rounded
    if (op.sources[k].scaled) value = CombineValues<T>(ReduceOp::kProd, value, scales[k]);
    result = k == 0 ? T{value} : CombineValues<T>(op.op, result, value);
  }
  return result;
}

template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <typename T>
uint64_t ToBits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

template <typename T>
uint64_t PlainElement(const MemOp& op, const std::vector<uint64_t>& inputs) {
  std::vector<T> values, scales;
  for (size_t k = 0; k < inputs.size(); ++k) {
    values.push_back(FromBits<T>(inputs[k]));
    scales.push_back(FromBits<T>(op.sources[k].scale_bits));
  }
  T result = Accumulate<T>(op, values, scales);
  if constexpr (std::is_integral_v<T>) {
    if (op.finish == Finish::kDivide) {
      const __int128 quotient = static_cast<__int128>(result) / static_cast<__int128>(op.divisor);
      result = static_cast<T>(quotient);
    }
  }
  return ToBits(result);
}

uint64_t NarrowElement(const MemOp& op, const std::vector<uint64_t>& inputs) {
  const NarrowFormat& format = NarrowFormat::Of(op.type);
  if (inputs.size() == 1 && !op.sources[0].scaled) return inputs[0];
  std::vector<float> values, scales;
  const uint32_t mask = SizeOf(op.type) == 1 ? 0xff : 0xffff;
  for (size_t k = 0; k < inputs.size(); ++k) {
    values.push_back(static_cast<float>(format.Decode(static_cast<uint32_t>(inputs[k]))));
    scales.push_back(
        static_cast<float>(format.Decode(static_cast<uint32_t>(op.sources[k].scale_bits) & mask)));
  }
  return format.Encode(Accumulate<float>(op, values, scales), SizeOf(op.type) == 2);
}

}  // namespace

NarrowFormat::NarrowFormat(int exponent_bits, int mantissa_bits, uint32_t largest,
                           bool has_infinity)
    : exponent_bits_(exponent_bits),
      mantissa_bits_(mantissa_bits),
      largest_(largest),
      has_infinity_(has_infinity),
      sign_bit_(1u << (exponent_bits + mantissa_bits)) {}

const NarrowFormat& NarrowFormat::Of(DataType type) {
  static const NarrowFormat kFloat16(5, 10, 0x7bff, true);
  static const NarrowFormat kBfloat16(8, 7, 0x7f7f, true);
  static const NarrowFormat kE4m3(4, 3, 0x7e, false);
  static const NarrowFormat kE5m2(5, 2, 0x7b, true);
  switch (type) {
    case DataType::kFloat16:
      return kFloat16;
    case DataType::kBfloat16:
      return kBfloat16;
    case DataType::kFloat8e4m3:
      return kE4m3;
    default:
      return kE5m2;
  }
}

double NarrowFormat::Magnitude(uint32_t bits) const {
  const int bias = (1 << (exponent_bits_ - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits_);
  const uint32_t mantissa = bits & ((1u << mantissa_bits_) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits_);
  return std::ldexp(mantissa + (1u << mantissa_bits_), exponent - bias - mantissa_bits_);
}

double NarrowFormat::Decode(uint32_t bits) const {
  const uint32_t magnitude = bits & (sign_bit_ - 1);
  double value = std::numeric_limits<double>::quiet_NaN();
  if (magnitude <= largest_) {
    value = Magnitude(magnitude);
  } else if (has_infinity_ && magnitude == largest_ + 1) {
    value = std::numeric_limits<double>::infinity();
  }
  return (bits & sign_bit_) != 0 ? -value : value;
}

bool NarrowFormat::IsNan(uint32_t bits) const {
  return (bits & (sign_bit_ - 1)) > largest_ + (has_infinity_ ? 1 : 0);
}

uint32_t NarrowFormat::Encode(double value, bool to_infinity) const {
  if (std::isnan(value)) return sign_bit_ - 1;
  const uint32_t sign = std::signbit(value) ? sign_bit_ : 0;
  const double abs = std::fabs(value);
  uint32_t low = 0, high = largest_;  // the largest number that is not above `abs`
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (Magnitude(middle) <= abs)
      low = middle;
    else
      high = middle - 1;
  }
  const double above = Magnitude(low + 1) - abs;
  const double below = abs - Magnitude(low);
  uint32_t nearest = above < below || (above == below && low % 2 == 1) ? low + 1 : low;
  if (std::isinf(abs)) nearest = largest_ + 1;
  if (nearest > largest_ && !to_infinity) nearest = largest_;
  return nearest | sign;
}

uint64_t ReferenceElement(const MemOp& op, const std::vector<uint64_t>& inputs) {
  switch (op.type) {
    case DataType::kInt8:
      return PlainElement<int8_t>(op, inputs);
    case DataType::kUint8:
      return PlainElement<uint8_t>(op, inputs);
    case DataType::kInt32:
      return PlainElement<int32_t>(op, inputs);
    case DataType::kUint32:
      return PlainElement<uint32_t>(op, inputs);
    case DataType::kInt64:
      return PlainElement<int64_t>(op, inputs);
    case DataType::kUint64:
      return PlainElement<uint64_t>(op, inputs);
    case DataType::kFloat32:
      return PlainElement<float>(op, inputs);
    case DataType::kFloat64:
      return PlainElement<double>(op, inputs);
    default:
      return NarrowElement(op, inputs);
  }
}

bool SameValue(DataType type, uint64_t a, uint64_t b) {
  if (a == b) return true;
  switch (type) {
    case DataType::kFloat32:
      return std::isnan(FromBits<float>(a)) && std::isnan(FromBits<float>(b));
    case DataType::kFloat64:
      return std::isnan(FromBits<double>(a)) && std::isnan(FromBits<double>(b));
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2: {
      const NarrowFormat& format = NarrowFormat::Of(type);
      return format.IsNan(static_cast<uint32_t>(a)) && format.IsNan(static_cast<uint32_t>(b));
    }
    default:
      return false;
  }
}

}  // namespace mccs
