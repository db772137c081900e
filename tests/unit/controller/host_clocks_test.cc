#include "controller/measurement/host_clocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "service/agent/agent_table.h"

namespace mccs {
namespace host_clocks_test {

constexpr MonotonicNs kStart = 50 * kNsPerSec;

TEST(HostClocks, OffsetErrorIsHalfTheRoundTrip) {
  HostClocks clocks;
  EXPECT_FALSE(clocks.Read("h0", kStart).has_value());
  // The host's clock is 7 s ahead; 1 ms each way, and 400 ms between request and answer.
  ASSERT_TRUE(clocks.AddTrip("h0", {.sent = kStart,
                                    .received_at = kStart + 7 * kNsPerSec + kNsPerMs,
                                    .answered = kStart + 7 * kNsPerSec + 401 * kNsPerMs,
                                    .returned_at = kStart + 402 * kNsPerMs}));
  const auto reading = clocks.Read("h0", kStart + 402 * kNsPerMs);
  ASSERT_TRUE(reading.has_value());
  EXPECT_EQ(reading->offset_ns, 7 * kNsPerSec);
  EXPECT_GE(reading->error_ns, kNsPerMs);
  EXPECT_LT(reading->error_ns, kNsPerMs + kNsPerMs / 10);
  EXPECT_EQ(reading->OnController(reading->OnHost(123)), 123);
  clocks.Remove("h0");
  EXPECT_FALSE(clocks.Read("h0", kStart).has_value());
}

TEST(HostClocks, PrefersShortTripsUntilTheyAreOld) {
  HostClocks clocks;
  const auto hear = [&](MonotonicNs at, int64_t there_ns, int64_t back_ns) {
    clocks.AddTrip("h0", {.sent = at,
                          .received_at = at + there_ns,
                          .answered = at + there_ns,
                          .returned_at = at + there_ns + back_ns});
  };
  hear(kStart, 50 * kNsPerUs, 50 * kNsPerUs);
  hear(kStart + kNsPerSec, 20 * kNsPerMs, 0);
  EXPECT_EQ(clocks.Read("h0", kStart + kNsPerSec)->offset_ns, 0);
  EXPECT_LT(clocks.Read("h0", kStart + kNsPerSec)->error_ns, 200 * kNsPerUs);
  // 600 s later the clocks may have drifted by 60 ms, so the newer trip is more exact.
  hear(kStart + 600 * kNsPerSec, 20 * kNsPerMs, 0);
  EXPECT_EQ(clocks.Read("h0", kStart + 601 * kNsPerSec)->offset_ns, 10 * kNsPerMs);
}

// A suspended virtual machine. The trip before has a smaller error.
TEST(HostClocks, AJumpOfAClockDropsEarlierTrips) {
  for (const int64_t jump : {3 * kNsPerSec, -3 * kNsPerSec}) {
    HostClocks clocks;
    const auto hear = [&](MonotonicNs at, int64_t offset, int64_t way_ns) {
      ASSERT_TRUE(clocks.AddTrip("h0", {.sent = at,
                                        .received_at = at + offset + way_ns,
                                        .answered = at + offset + way_ns,
                                        .returned_at = at + 2 * way_ns}));
    };
    hear(kStart, 0, 20 * kNsPerUs);
    hear(kStart + kNsPerSec, jump, 3 * kNsPerMs);
    EXPECT_EQ(clocks.Read("h0", kStart + 2 * kNsPerSec)->offset_ns, jump);
    hear(kStart + 2 * kNsPerSec, jump, 20 * kNsPerUs);
    EXPECT_LT(clocks.Read("h0", kStart + 2 * kNsPerSec)->error_ns, kNsPerMs);
  }
}

TEST(HostClocks, RejectsImpossibleTrips) {
  HostClocks clocks;
  constexpr MonotonicNs kMost = std::numeric_limits<MonotonicNs>::max();
  constexpr MonotonicNs kLeast = std::numeric_limits<MonotonicNs>::min();
  EXPECT_FALSE(clocks.AddTrip(
      "h0", {.sent = kStart, .received_at = 1, .answered = 1, .returned_at = kStart - 1}));
  EXPECT_FALSE(clocks.AddTrip(
      "h0", {.sent = kStart, .received_at = 5, .answered = 4, .returned_at = kStart + 1}));
  EXPECT_FALSE(clocks.AddTrip("h0", {.sent = kStart,
                                     .received_at = 1,
                                     .answered = 1 + kNsPerSec,
                                     .returned_at = kStart + kNsPerMs}));
  for (const MonotonicNs wrong : {kMost, kLeast, MonotonicNs{0}}) {
    EXPECT_FALSE(clocks.AddTrip(
        "h0", {.sent = wrong, .received_at = 1, .answered = 2, .returned_at = kStart}));
    EXPECT_FALSE(clocks.AddTrip(
        "h0", {.sent = 1, .received_at = wrong, .answered = 2, .returned_at = kStart}));
    EXPECT_FALSE(clocks.AddTrip(
        "h0", {.sent = 1, .received_at = 1, .answered = wrong, .returned_at = kStart}));
  }
  EXPECT_FALSE(clocks.Read("h0", kStart).has_value());
}

// Heartbeats of an agent over a day, with drifting clocks and different delays in the two
// directions, mostly short and sometimes very long.
TEST(HostClocks, TrueOffsetIsWithinTheReportedError) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const double drift = (static_cast<double>(random() % 181) - 90) * 1e-6;
    const auto base = static_cast<int64_t>(random() % (1'000'000 * uint64_t{kNsPerSec}));
    const auto on_host = [&](MonotonicNs time) {
      return base + time + std::llround(drift * static_cast<double>(time));
    };
    const auto delay = [&] {
      const int64_t some = 30 * kNsPerUs + static_cast<int64_t>(random() % (300 * kNsPerUs));
      return random() % 10 == 0 ? some + static_cast<int64_t>(random() % (200 * kNsPerMs)) : some;
    };
    HostClocks clocks;
    ClockEcho echo;
    MonotonicNs now = kStart;
    int wide = 0;
    for (int beat = 0; beat < 2000; ++beat) {
      now += kNsPerSec + static_cast<int64_t>(random() % kNsPerSec);
      const agent::v1::Heartbeat up = echo.MakeHeartbeat(on_host(now));
      now += delay();
      if (up.echoed_sent_ns() != 0) {
        EXPECT_TRUE(clocks.AddTrip("h0", {.sent = up.echoed_sent_ns(),
                                          .received_at = up.received_ns(),
                                          .answered = up.sent_ns(),
                                          .returned_at = now}));
      }
      agent::v1::Heartbeat down;
      down.set_sent_ns(now);
      if (const auto reading = clocks.Read("h0", now)) {
        ASSERT_LE(std::abs(reading->OnHost(now) - on_host(now)), reading->error_ns);
        wide += reading->error_ns > 3 * kNsPerMs ? 1 : 0;
      } else {
        EXPECT_EQ(beat, 0);
      }
      now += delay();
      echo.OnHeartbeat(down, on_host(now));
    }
    EXPECT_LT(wide, 20) << "of 2000";
  }
}

}  // namespace host_clocks_test
}  // namespace mccs
