#include "topology/payload_fraction.h"

#include <gtest/gtest.h>

#include "topology/topology.h"

namespace mccs {
namespace payload_fraction_test {

TEST(PayloadFraction, MatchesASaturatedLinkInBothDirections) {
  EXPECT_NEAR(PayloadFraction(1500), 0.9546, 0.0005);
  EXPECT_NEAR(PayloadFraction(9000), 0.9905, 0.0005);
}

TEST(PayloadFraction, LargerPacketsCarryMorePayload) {
  double before = 0;
  for (int32_t mtu = Topology::kMinMtuBytes; mtu <= Topology::kMaxMtuBytes; ++mtu) {
    const double part = PayloadFraction(mtu);
    ASSERT_GT(part, before) << mtu;
    ASSERT_LT(part, 1) << mtu;
    before = part;
  }
}

}  // namespace payload_fraction_test
}  // namespace mccs
