#include "service/communicator/schedule/scalar_encoding.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/device/reference_numbers.h"

namespace mccs {
namespace scalar_encoding_test {

TEST(EncodeScalar, RoundsToNearestShortFloat) {
  for (const DataType type :
       {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    for (int n = 1; n <= 4096; ++n) {
      ASSERT_EQ(EncodeScalar(type, 1.0 / n),
                NarrowFormat::Of(type).Encode(1.0 / n, /*to_infinity=*/true))
          << Name(type) << " 1/" << n;
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

}  // namespace scalar_encoding_test
}  // namespace mccs
