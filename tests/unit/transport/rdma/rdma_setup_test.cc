// The limits of the set-up of lanes over RDMA: round trips and memory.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

#include "base/units.h"
#include "tests/unit/transport/rdma/rdma_world.h"

namespace mccs {
namespace rdma_test {

class RdmaSetupTest : public RdmaWorld {};

// Of the streams: longer than any, and both directions.
constexpr int64_t kRoundTripNs = 2 * SimNetworkOptions{}.max_delay_ns;

TEST_F(RdmaSetupTest, ALaneIsReadyWithinThreeRoundTrips) {
  Start(2);
  // The end with the smaller GID makes the queue pair: once the sender, once the receiver. A second
  // lane shares the queue pair, a third one goes in the other direction.
  const std::pair<size_t, size_t> ends[] = {{0, 1}, {0, 1}, {1, 0}};
  for (const uint8_t traffic_class : {uint8_t{0}, uint8_t{1}}) {
    for (const auto& [from, to] : ends) {
      const bool reversed = traffic_class == 1;
      Lane& lane = Open(reversed ? to : from, reversed ? from : to, traffic_class);
      const MonotonicNs begin = clock_.Now();
      ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
      EXPECT_LE(clock_.Now() - begin, 3 * kRoundTripNs);
    }
  }
}

TEST_F(RdmaSetupTest, AnIdleLaneTakesAtMost4KiBBesideItsSlots) {
  constexpr size_t kLanes = 200;
  constexpr size_t kMost = 4 * kKiB;  // of both ends, and of the fake NICs
  Start(2);
  Lane& first = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(first); }));
  const size_t before = mallinfo2().uordblks;
  if (before == 0) GTEST_SKIP() << "a sanitizer's allocator does not count";
  for (size_t i = 0; i < kLanes; ++i) Open(0, 1, 0, /*has_slots=*/false);
  ASSERT_TRUE(RunUntil(
      [&] { return std::ranges::all_of(lanes_, [&](const auto& lane) { return Ready(*lane); }); }));
  EXPECT_LE((mallinfo2().uordblks - before) / kLanes, 2 * kMost);
  RecordProperty("bytes_per_lane", std::to_string((mallinfo2().uordblks - before) / kLanes));
}

}  // namespace rdma_test
}  // namespace mccs
