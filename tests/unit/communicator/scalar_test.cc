// Scales of averages, against tables of all values of a type.
#include "service/communicator/schedule/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace mccs {
namespace scalar_test {

struct Format {
  DataType type;
  int exponent_bits, mantissa_bits;
};

constexpr Format kFormats[] = {{DataType::kFloat16, 5, 10},
                               {DataType::kBfloat16, 8, 7},
                               {DataType::kFloat8e4m3, 4, 3},
                               {DataType::kFloat8e5m2, 5, 2}};

// The value of the bits, by the definition of the format.
double Decode(const Format& format, uint32_t bits) {
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> format.mantissa_bits);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(mantissa, -format.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

// The nearest value, ties to even, by a search of all values.
uint32_t Nearest(const std::vector<double>& values, double wanted) {
  uint32_t best = 0;
  for (uint32_t bits = 1; bits < values.size(); ++bits) {
    const double now = std::abs(values[bits] - wanted), then = std::abs(values[best] - wanted);
    if (now < then || (now == then && bits % 2 == 0)) best = bits;
  }
  return best;
}

TEST(EncodeScalar, RoundsToNearestShortFloat) {
  for (const Format& format : kFormats) {
    std::vector<double> values;  // up to 1
    for (uint32_t bits = 0; values.empty() || values.back() < 1; ++bits)
      values.push_back(Decode(format, bits));
    const int step = format.mantissa_bits > 5 ? 7 : 1;  // searching the long tables is slow
    for (int n = 1; n <= 4096; n += n < 64 ? 1 : step) {
      ASSERT_EQ(EncodeScalar(format.type, 1.0 / n), Nearest(values, 1.0 / n))
          << Name(format.type) << " 1/" << n;
    }
  }
}

TEST(EncodeScalar, EncodesLongFloats) {
  for (int n = 1; n <= 4096; ++n) {
    EXPECT_EQ(EncodeScalar(DataType::kFloat32, 1.0 / n),
              std::bit_cast<uint32_t>(static_cast<float>(1.0 / n)));
    EXPECT_EQ(EncodeScalar(DataType::kFloat64, 1.0 / n), std::bit_cast<uint64_t>(1.0 / n));
  }
}

}  // namespace scalar_test
}  // namespace mccs
