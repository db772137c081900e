// Hops, lanes and memory of all-to-alls over a grid, and the proof of their correctness up to 64
// hosts. plan_sweep_test.cc proves small layouts.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "algorithms/algorithm_choice.h"
#include "algorithms/build_plan.h"
#include "algorithms/grid.h"
#include "algorithms/plan.h"
#include "algorithms/plan_size.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/device/lane_shape.h"
#include "tests/unit/algorithms/plan_cases.h"
#include "tests/unit/algorithms/plan_check.h"

namespace mccs {
namespace grid_plan_test {

using ::testing::HasSubstr;

constexpr PlanKey kGridKey{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kGrid};

Layout EqualHosts(int hosts, int ranks) {
  return InterleavedLayout(std::vector<int>(static_cast<size_t>(hosts), ranks));
}

// Host h has 1 + h mod `most` ranks.
Layout UnequalHosts(int hosts, int most) {
  std::vector<int> ranks;
  for (int h = 0; h < hosts; ++h) ranks.push_back(1 + h % most);
  return InterleavedLayout(ranks);
}

// The parts of a plan bound a turn of the engine.
TEST(GridPlan, IsBuiltWaveByWave) {
  constexpr int kHosts = 16, kRanks = 8, kChannels = 2;
  const Layout layout = EqualHosts(kHosts, kRanks);
  const ChannelOrders orders = VariedOrders(kHosts, kChannels);
  const GridShape shape = GridShapeOf(kHosts, kRanks);
  ASSERT_LT(shape.wave_pairs, kRanks * kRanks);
  absl::StatusOr<PlanBuild> build = PlanBuild::Begin(kGridKey, layout, orders, HostIndex(3));
  ASSERT_TRUE(build.ok()) << build.status();
  // A block is packed, received and copied in each hop.
  const auto wave = static_cast<uint64_t>(16 * shape.wave_pairs * kHosts);
  while (!build->done()) {
    build->BuildNext();
    EXPECT_LE(build->last_parts(), kPartsAtOnce + wave);
  }
  EXPECT_EQ(build->Take().programs.size(), static_cast<size_t>(kChannels));
}

TEST(Grid, BlocksGoAlongRowsAndColumns) {
  for (int hosts = 2; hosts <= 150; ++hosts) {
    const Grid grid(hosts);
    EXPECT_GE(grid.columns(), grid.rows());
    EXPECT_LE(grid.columns() - grid.rows(), 1);
    const auto neighbours = [&](int a, int b) {
      return grid.row(a) == grid.row(b) || grid.column(a) == grid.column(b);
    };
    for (int from = 0; from < hosts; ++from) {
      for (int to = 0; to < hosts; ++to) {
        if (from == to) continue;
        const int via = grid.Via(from, to);
        ASSERT_GE(via, 0);
        ASSERT_LT(via, hosts) << from << " to " << to << " of " << hosts;
        EXPECT_TRUE(neighbours(from, via) && neighbours(via, to)) << from << " to " << to;
      }
    }
  }
}

TEST(GridPlan, TakesTwoHops) {
  for (int hosts : {4, 5, 9, 13, 64, 101}) {
    for (int ranks : {1, 3}) {
      const auto plans = BuildAll(kGridKey, EqualHosts(hosts, ranks), VariedOrders(hosts, 1));
      EXPECT_EQ(LongestChain(plans), 2) << hosts;
      for (const Plan& plan : plans) EXPECT_EQ(plan.programs[0].hops, 2);
    }
  }
}

struct Peers {
  std::set<HostIndex> senders;    // whose lanes need slots here
  std::set<HostIndex> receivers;  // to whose lanes this host sends
  std::set<HostIndex> staged;     // of these: with staging memory
};

Peers PeersIn(const Program& program) {
  Peers peers;
  for (const Step& step : program.steps) {
    if (step.kind == StepKind::kReceive) peers.senders.insert(step.peer);
    if (step.kind != StepKind::kSend) continue;
    peers.receivers.insert(step.peer);
    if (step.pieces[0].space == Space::kStaged) peers.staged.insert(step.peer);
  }
  return peers;
}

TEST(GridPlan, HasLanesToARowAndAColumnOnly) {
  for (int hosts : {4, 5, 11, 16, 50, 97}) {
    for (const Plan& plan : BuildAll(kGridKey, UnequalHosts(hosts, 2), VariedOrders(hosts, 1))) {
      Peers peers = PeersIn(plan.programs[0]);
      peers.receivers.merge(peers.senders);
      EXPECT_LE(static_cast<int>(peers.receivers.size()), Grid(hosts).peers());
      EXPECT_LE(static_cast<int>(peers.receivers.size()), PeersOf(Algorithm::kGrid, hosts));
    }
  }
}

// Slots and staging memory with mccsd's default lanes (service/config.h).
TEST(GridPlan, LanesOverAThousandHostsTakeAtMost256MiB) {
  constexpr LaneShape kShape{.slots = 12, .slot_bytes = 96 << 10};
  constexpr uint64_t kChannels = 2;
  for (int hosts : {1009, 1023, 1024}) {
    for (int ranks : {1, 8}) {
      const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), ranks));
      const ChannelOrders orders = VariedOrders(hosts, 1);
      uint64_t most_bytes = 0;
      for (int host : {0, 31, 32, 500, hosts - 1}) {
        const auto plan = BuildPlan(kGridKey, layout, orders, HostIndex(host));
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_LE(plan->max_pieces, kMaxPieces);
        const Peers peers = PeersIn(plan->programs[0]);
        most_bytes = std::max(most_bytes, peers.senders.size() * kShape.receive_bytes() +
                                              peers.staged.size() * kShape.staging_bytes());
      }
      EXPECT_LE(kChannels * most_bytes, 256 * kMiB) << hosts << " hosts of " << ranks << " ranks";
    }
  }
}

// A block takes at most two hops.
TEST(GridPlan, MovesEachBlockAtMostTwice) {
  for (int hosts : {4, 7, 16, 30}) {
    for (const Plan& plan : BuildAll(kGridKey, EqualHosts(hosts, 2), VariedOrders(hosts, 1))) {
      size_t out = 0;
      for (const Step& step : plan.programs[0].steps) {
        EXPECT_LE(static_cast<int>(step.pieces.size()), plan.max_pieces);
        if (step.kind == StepKind::kSend) out += step.pieces.size();
      }
      // An intermediate host of the incomplete row may have more work than others.
      EXPECT_LE(out, 3 * 4 * (static_cast<size_t>(hosts) - 1));
    }
  }
}

void Prove(const Layout& layout, const CheckOptions& options) {
  const auto plans = BuildAll(kGridKey, layout, VariedOrders(layout.host_count(), 1));
  CheckOptions checked = options;
  checked.in_order = false;  // kernels run no plans on the grid
  checked.slot_bytes = 64 * static_cast<uint32_t>(plans[0].max_pieces);
  const absl::Status status = CheckPlans(plans, layout, checked);
  ASSERT_TRUE(status.ok()) << Describe(kGridKey, layout) << ", " << checked.slots << " slots, "
                           << checked.staging() << " staging slots, skew " << checked.skew << ": "
                           << status;
}

TEST(GridPlan, EveryNumberOfHostsIsProved) {
  for (int hosts = 4; hosts <= 64; ++hosts) {
    // Up to three rounds, as many as the checker has room for: each slot is used twice.
    const uint64_t rounds = hosts <= 40 ? 3 : 1;
    const uint32_t slots = 1 + static_cast<uint32_t>(hosts) % 2;
    const CheckOptions options{.count = 16 * rounds - 3, .slots = slots, .skew = slots - 1};
    ASSERT_NO_FATAL_FAILURE(Prove(EqualHosts(hosts, 1), options));
    ASSERT_NO_FATAL_FAILURE(Prove(UnequalHosts(hosts, 3), options));
  }
}

TEST(GridPlan, EveryWindowIsProved) {
  for (int hosts : {4, 5, 7, 8, 11, 13}) {
    for (uint32_t slots = 1; slots <= 3; ++slots) {
      for (uint32_t skew = 0; skew < slots; ++skew) {
        for (uint32_t staging = 1; staging <= slots; ++staging) {
          ASSERT_NO_FATAL_FAILURE(Prove(UnequalHosts(hosts, 3), {.count = 16 * (2 * slots + 1),
                                                                 .slots = slots,
                                                                 .skew = skew,
                                                                 .staging_slots = staging}));
        }
      }
    }
  }
}

// More pairs of ranks than pieces of a slice.
TEST(GridPlan, SeveralWavesAreProved) {
  for (const Layout& layout : {BlockLayout({12, 1, 11, 12, 3}), EqualHosts(7, 8)}) {
    const GridShape shape = GridShapeOf(layout.host_count(), layout.max_local_ranks());
    EXPECT_LT(shape.wave_pairs, shape.local_ranks * shape.local_ranks);
    for (uint32_t slots : {1u, 2u}) {
      ASSERT_NO_FATAL_FAILURE(Prove(layout, {.count = 13, .slots = slots, .skew = slots - 1}));
    }
  }
}

TEST(GridPlan, RejectsTooManySteps) {
  const Layout layout = BlockLayout(std::vector<int>(1024, 128));
  const auto plan = BuildPlan(kGridKey, layout, VariedOrders(1024, 1), HostIndex(0));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(),
              HasSubstr("all_to_all by grid with up to 128 ranks on each of 1024 hosts"));
}

TEST(GridPlan, HasNoMoreStepsThanItsBound) {
  for (const Layout& layout : {EqualHosts(4, 9), EqualHosts(13, 5), EqualHosts(37, 3),
                               EqualHosts(64, 2), UnequalHosts(31, 6)}) {
    const int hosts = layout.host_count();
    const uint64_t most = MostGridSteps(hosts, GridShapeOf(hosts, layout.max_local_ranks()));
    for (const Plan& plan : BuildAll(kGridKey, layout, VariedOrders(hosts, 1))) {
      EXPECT_LE(plan.programs[0].steps.size(), most) << hosts;
    }
  }
}

TEST(GridPlan, RejectsThreeHosts) {
  const auto plan = BuildPlan(kGridKey, EqualHosts(3, 1), VariedOrders(3, 1), HostIndex(0));
  EXPECT_THAT(plan.status().message(),
              HasSubstr("all_to_all: unsupported by algorithm 'grid' over 3 hosts"));
}

}  // namespace grid_plan_test
}  // namespace mccs
