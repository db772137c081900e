#include "controller/state/rejection_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace mccs {
namespace rejection_limits_test {

constexpr UnixNs kStart = 1'800'000'000 * kNsPerSec;

// Rejections that are listed, of `count` at one time.
int Listed(RejectionLimits& limits, const std::string& user, int count, UnixNs now) {
  int listed = 0;
  for (int i = 0; i < count; ++i) listed += limits.Admit(user, now).has_value() ? 1 : 0;
  return listed;
}

TEST(RejectionLimits, ListsABurstAndThenOnePerInterval) {
  RejectionLimits limits;
  EXPECT_EQ(Listed(limits, "ann", 1000, kStart), RejectionLimits::kBurst);
  EXPECT_EQ(limits.Admit("ann", kStart + RejectionLimits::kIntervalNs), 1000u - 20u);
  EXPECT_EQ(limits.Admit("ann", kStart + RejectionLimits::kIntervalNs), std::nullopt);
  EXPECT_EQ(Listed(limits, "ann", 1000, kStart + 1000 * RejectionLimits::kIntervalNs),
            RejectionLimits::kBurst);
}

TEST(RejectionLimits, OneOperatorsFloodAffectsNoOther) {
  RejectionLimits limits;
  Listed(limits, "ann", 1000, kStart);
  EXPECT_EQ(limits.Admit("bob", kStart), 0u);
}

TEST(RejectionLimits, InventedNamesShareALimit) {
  RejectionLimits limits;
  int listed = 0;
  for (int i = 0; i < 100'000; ++i) listed += Listed(limits, std::to_string(i), 1, kStart);
  EXPECT_LE(listed, static_cast<int>(RejectionLimits::kMaxOperators) + RejectionLimits::kBurst);
  EXPECT_EQ(
      limits.Admit("bob", kStart + 2 * RejectionLimits::kBurst * RejectionLimits::kIntervalNs), 0u)
      << "quiet ones are forgotten";
}

TEST(RejectionLimits, AClockThatIsSetBackBlocksNothingForever) {
  RejectionLimits limits;
  Listed(limits, "ann", 1000, kStart);
  const UnixNs back = kStart - 1000 * RejectionLimits::kIntervalNs;
  EXPECT_EQ(limits.Admit("ann", back), std::nullopt);
  EXPECT_TRUE(limits.Admit("ann", back + RejectionLimits::kIntervalNs).has_value());
}

}  // namespace rejection_limits_test
}  // namespace mccs
