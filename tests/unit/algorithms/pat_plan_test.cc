// Hops, lanes and memory of PAT plans, and the proof of their correctness for every number of hosts
// up to 64. plan_sweep_test.cc proves small layouts.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <vector>

#include "algorithms/algorithm_choice.h"
#include "algorithms/pat.h"
#include "algorithms/plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"
#include "tests/unit/algorithms/plan_check.h"

namespace mccs {
namespace pat_plan_test {

constexpr OpKind kKinds[] = {OpKind::kAllGather, OpKind::kReduceScatter};

PlanKey PatKey(OpKind kind) { return {.kind = kind, .algorithm = Algorithm::kPat}; }

Layout EqualHosts(int hosts, int ranks) {
  return InterleavedLayout(std::vector<int>(static_cast<size_t>(hosts), ranks));
}

// Host h has 1 + h mod `most` ranks.
Layout UnequalHosts(int hosts, int most) {
  std::vector<int> ranks;
  for (int h = 0; h < hosts; ++h) ranks.push_back(1 + h % most);
  return InterleavedLayout(ranks);
}

int CeilLog2(int n) {
  int log = 0;
  while (1 << log < n) ++log;
  return log;
}

TEST(PatPlan, TakesTheLogarithmOfTheHosts) {
  for (OpKind kind : kKinds) {
    for (int hosts : {3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 100, 128}) {
      for (int ranks : {1, 3}) {
        const auto plans = BuildAll(PatKey(kind), EqualHosts(hosts, ranks), VariedOrders(hosts, 1));
        for (const Plan& plan : plans) EXPECT_EQ(plan.programs[0].hops, CeilLog2(hosts));
        const int longest = LongestChain(plans);
        EXPECT_LE(longest, CeilLog2(hosts)) << Name(kind) << " over " << hosts;
        if (std::has_single_bit(static_cast<unsigned>(hosts))) {
          EXPECT_EQ(longest, CeilLog2(hosts)) << Name(kind) << " over " << hosts;
        }
      }
    }
  }
}

// As with a ring, which is optimal: each block enters each host once.
TEST(PatPlan, MovesNoMoreThanARing) {
  for (OpKind kind : kKinds) {
    for (int hosts : {3, 6, 13, 32}) {
      const Layout layout = EqualHosts(hosts, 2);
      for (const Plan& plan : BuildAll(PatKey(kind), layout, VariedOrders(hosts, 1))) {
        size_t out = 0, in = 0;
        for (const Step& step : plan.programs[0].steps) {
          if (step.kind == StepKind::kSend) out += step.pieces.size();
          if (step.kind == StepKind::kReceive) in += step.pieces.size();
        }
        EXPECT_EQ(out, 2 * (static_cast<size_t>(hosts) - 1));
        EXPECT_EQ(in, 2 * (static_cast<size_t>(hosts) - 1));
      }
    }
  }
}

TEST(PatPlan, SendsMostToTheNextHost) {
  const auto plans = BuildAll(PatKey(OpKind::kAllGather), EqualHosts(16, 1), VariedOrders(16, 1));
  std::map<int, size_t> pieces;  // by distance on the ring
  for (const Step& step : plans[3].programs[0].steps) {
    if (step.kind == StepKind::kSend)
      pieces[(step.peer.value() - 3 + 16) % 16] += step.pieces.size();
  }
  EXPECT_EQ(pieces, (std::map<int, size_t>{{1, 8}, {2, 4}, {4, 2}, {8, 1}}));
}

TEST(PatPlan, ItsLanesAreFew) {
  for (OpKind kind : kKinds) {
    for (int hosts : {3, 4, 7, 16, 25, 128}) {
      for (const Plan& plan :
           BuildAll(PatKey(kind), EqualHosts(hosts, 1), VariedOrders(hosts, 1))) {
        std::set<HostIndex> to, from;
        for (const Step& step : plan.programs[0].steps) {
          if (step.kind == StepKind::kSend) to.insert(step.peer);
          if (step.kind == StepKind::kReceive) from.insert(step.peer);
        }
        EXPECT_EQ(static_cast<int>(to.size()), PatHops(hosts));
        EXPECT_EQ(static_cast<int>(from.size()), PatHops(hosts));
        to.merge(from);
        EXPECT_LE(static_cast<int>(to.size()), PeersOf(Algorithm::kPat, hosts));
      }
    }
  }
}

// Slots that a reduce-scatter holds at once per lane and round, if the host starts its steps in
// order: from the receive to the last combine that reads it.
int MostHeldSlots(const Program& program) {
  std::map<uint16_t, size_t> last_reader;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (const Combine& combine : program.steps[s].combines) {
      for (const Place& place : combine.sources) {
        if (place.space == Space::kReceived) last_reader[place.index] = s;
      }
    }
  }
  int most = 0;
  std::map<HostIndex, std::set<size_t>> held;  // by peer: positions of the last readers
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (auto& [peer, readers] : held) readers.erase(s);
    const Step& step = program.steps[s];
    if (step.kind != StepKind::kReceive) continue;
    held[step.peer].insert(last_reader.at(static_cast<uint16_t>(s)));
    most = std::max(most, static_cast<int>(held[step.peer].size()));
  }
  return most;
}

TEST(PatPlan, HoldsOneSlotPerLaneOverAnyNumberOfHosts) {
  for (int hosts : {3, 64, 1000, kMaxHosts}) {
    for (int ranks : {1, 8, kMaxLocalRanks}) {
      const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), ranks));
      if (layout.rank_count() > 1 << 16) continue;  // takes too long for a test
      const ChannelOrders orders = VariedOrders(hosts, 1);
      for (OpKind kind : kKinds) {
        const auto plan = BuildPlan(PatKey(kind), layout, orders, HostIndex(hosts / 2));
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_LE(plan->max_pieces, kMaxPieces);
        for (const Step& step : plan->programs[0].steps) {
          EXPECT_LE(static_cast<int>(step.pieces.size()), plan->max_pieces);
        }
        if (kind == OpKind::kReduceScatter) {
          EXPECT_EQ(MostHeldSlots(plan->programs[0]), 1) << hosts << " hosts of " << ranks;
        }
      }
    }
  }
}

void Prove(OpKind kind, const Layout& layout, const CheckOptions& options) {
  const auto plans = BuildAll(PatKey(kind), layout, VariedOrders(layout.host_count(), 1));
  CheckOptions checked = options;
  checked.slot_bytes = 64 * static_cast<uint32_t>(plans[0].max_pieces);
  const absl::Status status = CheckPlans(plans, layout, checked);
  ASSERT_TRUE(status.ok()) << Describe(PatKey(kind), layout) << ", " << checked.slots << " slots, "
                           << checked.staging() << " staging slots, skew " << checked.skew << ": "
                           << status;
}

// Three rounds: each slot is used twice.
TEST(PatPlan, EveryNumberOfHostsIsProved) {
  for (OpKind kind : kKinds) {
    for (int hosts = 3; hosts <= 64; ++hosts) {
      const uint32_t slots = 1 + static_cast<uint32_t>(hosts) % 2;
      const CheckOptions options{
          .count = 16 * 3 - 3, .slots = slots, .skew = slots - 1, .in_place = hosts % 3 == 0};
      ASSERT_NO_FATAL_FAILURE(Prove(kind, EqualHosts(hosts, 1), options));
      ASSERT_NO_FATAL_FAILURE(Prove(kind, UnequalHosts(hosts, 3), options));
    }
  }
}

TEST(PatPlan, EveryWindowIsProved) {
  for (OpKind kind : kKinds) {
    for (int hosts : {3, 5, 6, 7, 11, 16}) {
      for (uint32_t slots = 1; slots <= 3; ++slots) {
        for (uint32_t skew = 0; skew < slots; ++skew) {
          ASSERT_NO_FATAL_FAILURE(Prove(kind, UnequalHosts(hosts, 4),
                                        {.count = 16 * (2 * slots + 1),
                                         .slots = slots,
                                         .skew = skew,
                                         .in_place = slots == 2,
                                         .staging_slots = 1 + skew}));
        }
      }
    }
  }
}

// More pieces than a slice holds: several slices per hop, or several waves.
TEST(PatPlan, SeveralWavesAreProved) {
  for (OpKind kind : kKinds) {
    for (const Layout& layout : {BlockLayout({65, 1, 66, 2, 64, 3, 65}), EqualHosts(11, 40)}) {
      EXPECT_LT(PatShapeOf(OpKind::kReduceScatter, layout).wave_offsets, layout.host_count());
      ASSERT_NO_FATAL_FAILURE(Prove(kind, layout, {.count = 13, .slots = 1, .skew = 0}));
    }
  }
}

}  // namespace pat_plan_test
}  // namespace mccs
