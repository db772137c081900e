// The lanes of messages: every slice has one, pairs of ranks spread, and both directions agree.
#include "service/messages/striping.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace mccs {
namespace striping_test {

constexpr uint32_t kSlice = 256;

struct Ranks {
  Layout layout;
  std::vector<HostIndex> host_of;

  int Home(int a, int b, int lanes) const {
    return HomeLane(layout, host_of, {Rank(a), Rank(b)}, lanes);
  }
};

Ranks OnHosts(int hosts, int ranks_per_host) {
  Ranks ranks;
  ranks.layout.hosts.resize(static_cast<size_t>(hosts));
  for (int r = 0; r < hosts * ranks_per_host; ++r) {
    ranks.layout.hosts[static_cast<size_t>(r / ranks_per_host)].push_back(Rank(r));
    ranks.host_of.push_back(HostIndex(r / ranks_per_host));
  }
  return ranks;
}

TEST(Striping, EachStripeHasAWholeSlice) {
  EXPECT_EQ(StripesOf(0, kSlice, 8), 1);
  EXPECT_EQ(StripesOf(8, kSlice, 8), 1);
  EXPECT_EQ(StripesOf(2 * kSlice - 1, kSlice, 8), 1);
  EXPECT_EQ(StripesOf(2 * kSlice, kSlice, 8), 2);
  EXPECT_EQ(StripesOf(2 * kSlice, kSlice, 1), 1);
  EXPECT_EQ(StripesOf(uint64_t{1} << 60, kSlice, 8), 8);
}

// The stripes' slices are all slices of the message, each once, and stripes have different lanes.
TEST(Striping, StripesShareTheSlices) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 1000; ++run) {
    SCOPED_TRACE(run);
    const int home_lanes = 1 + static_cast<int>(random() % kMaxChannels);
    const int channels = 1 + static_cast<int>(random() % kMaxChannels);
    const uint64_t bytes = random() % (100 * kSlice);
    const Striping striping{.home = static_cast<int>(random() % home_lanes),
                            .home_lanes = home_lanes,
                            .stripes = StripesOf(bytes, kSlice, channels),
                            .slice_bytes = kSlice};
    std::set<int> lanes;
    std::set<uint64_t> offsets;
    for (int s = 0; s < striping.stripes; ++s) {
      EXPECT_TRUE(lanes.insert(striping.LaneOf(s)).second);
      for (uint64_t at = striping.FirstOffset(s); at < bytes; at += striping.Stride()) {
        EXPECT_EQ(striping.StripeAt(at), s);
        EXPECT_TRUE(offsets.insert(at).second);
      }
    }
    EXPECT_EQ(striping.LaneOf(0), striping.home);
    EXPECT_LT(*lanes.rbegin(), kMaxChannels);
    EXPECT_EQ(offsets.size(), (bytes + kSlice - 1) / kSlice);
  }
}

TEST(Striping, BothDirectionsHaveOneHomeLane) {
  const Ranks ranks = OnHosts(4, 3);
  for (int a = 0; a < 12; ++a) {
    for (int b = 0; b < 12; ++b) {
      if (a / 3 == b / 3) continue;
      EXPECT_EQ(ranks.Home(a, b, 4), ranks.Home(b, a, 4));
    }
  }
}

TEST(Striping, RanksOfTwoHostsSpreadOverLanes) {
  const Ranks ranks = OnHosts(2, 8);
  std::set<int> lanes;
  for (int r = 0; r < 8; ++r) lanes.insert(ranks.Home(r, 8 + r, 8));
  EXPECT_EQ(lanes.size(), 8u);
}

TEST(Striping, NeighboursOfSingleRanksSpreadOverLanes) {
  const Ranks ranks = OnHosts(9, 1);
  for (const int lanes : {2, 3, 4, 8}) {
    std::vector<int> pairs(static_cast<size_t>(lanes));
    for (int r = 0; r < 8; ++r) ++pairs[static_cast<size_t>(ranks.Home(r, r + 1, lanes))];
    for (const int pairs_of_lane : pairs) EXPECT_GE(pairs_of_lane, 8 / lanes);
  }
}

}  // namespace striping_test
}  // namespace mccs
