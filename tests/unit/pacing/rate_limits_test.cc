#include "service/pacing/rate_limits.h"

#include <gtest/gtest.h>

namespace mccs {
namespace rate_limits_test {

TEST(SendWindows, WithoutAPeriodTheyAreAlwaysOpen) {
  EXPECT_TRUE(SendWindows{}.OpenAt(-5));
  EXPECT_TRUE(SendWindows{}.OpenAt(5));
}

TEST(SendWindows, AreOpenFromTheirOriginOnceInAPeriod) {
  // Origins in the past, in the future, and periods apart: the same send windows.
  for (const MonotonicNs origin : {3, 103, -97, -100'000 + 3, 100'000 + 3}) {
    const SendWindows windows{.period_ns = 100, .origin_ns = origin, .open_ns = 40};
    for (MonotonicNs now = 0; now < 500; ++now) {
      const bool open = (now + 97) % 100 < 40;
      ASSERT_EQ(windows.OpenAt(now), open) << now << ", origin " << origin;
      if (open) continue;
      const MonotonicNs next = windows.NextOpening(now);
      EXPECT_GT(next, now);
      EXPECT_LE(next, now + 60);
      EXPECT_TRUE(windows.OpenAt(next));
      EXPECT_FALSE(windows.OpenAt(next - 1));
    }
  }
}

TEST(SendWindows, OfAWholePeriodNeverClose) {
  const SendWindows windows{.period_ns = 7, .origin_ns = 1, .open_ns = 7};
  for (MonotonicNs now = -20; now < 20; ++now) EXPECT_TRUE(windows.OpenAt(now));
}

TEST(SentRates, AreThoseOfTheHostByChannelAndPeer) {
  const RateLimits limits{.lanes = {{ChannelId(0), HostIndex(1), HostIndex(2), 10},
                                    {ChannelId(1), HostIndex(1), HostIndex(2), 20},
                                    {ChannelId(0), HostIndex(2), HostIndex(1), 30}}};
  const SentRates rates(limits, HostIndex(1));
  EXPECT_EQ(rates.RateOf(ChannelId(0), HostIndex(2)), 10u);
  EXPECT_EQ(rates.RateOf(ChannelId(1), HostIndex(2)), 20u);
  EXPECT_EQ(rates.RateOf(ChannelId(0), HostIndex(1)), std::nullopt) << "another host sends it";
  EXPECT_EQ(rates.RateOf(ChannelId(2), HostIndex(2)), std::nullopt);
}

}  // namespace rate_limits_test
}  // namespace mccs
