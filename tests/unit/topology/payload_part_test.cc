#include "topology/payload_part.h"

#include <gtest/gtest.h>

#include "topology/topology.h"

namespace mccs {
namespace payload_part_test {

TEST(PayloadPart, IsWhatASaturatedLinkOfTheLabCarriesBothWaysAtOnce) {
  EXPECT_NEAR(PayloadPart(1500), 0.9546, 0.0005);
  EXPECT_NEAR(PayloadPart(9000), 0.9905, 0.0005);
}

TEST(PayloadPart, LargerPacketsCarryMoreAndNoneAreNothingElse) {
  double before = 0;
  for (int32_t mtu = Topology::kMinMtuBytes; mtu <= Topology::kMaxMtuBytes; ++mtu) {
    const double part = PayloadPart(mtu);
    ASSERT_GT(part, before) << mtu;
    ASSERT_LT(part, 1) << mtu;
    before = part;
  }
}

}  // namespace payload_part_test
}  // namespace mccs
