// Proves the plans over a sweep of layouts, kinds, channels, slots, skews and counts. Not every
// combination: each test combines the parameters that can interact and varies the others in turn,
// and prints how many cases it proved.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "algorithms/staged_plan.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"
#include "tests/unit/algorithms/plan_check.h"

namespace mccs {
namespace plan_sweep_test {

constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 64, 333, 1000};
constexpr DataType kTypes[] = {DataType::kInt8, DataType::kFloat16, DataType::kFloat32,
                               DataType::kFloat64};
constexpr int kMostHosts = 4;
// Sanitizers make the proofs ten times slower: there, one case of five is proved, and the release
// build proves all (label sweep). No other parameter has this period.
#ifdef MCCS_SANITIZED
constexpr int kProvesOneOf = 5;
#else
constexpr int kProvesOneOf = 1;
#endif
constexpr int kMostLocalRanks = 4;

// All ways to put 1 … most ranks on each of `hosts` hosts.
std::vector<std::vector<int>> RanksPerHost(int hosts, int most) {
  std::vector<std::vector<int>> all = {{}};
  for (int h = 0; h < hosts; ++h) {
    std::vector<std::vector<int>> longer;
    for (const auto& prefix : all) {
      for (int ranks = 1; ranks <= most; ++ranks) {
        longer.push_back(prefix);
        longer.back().push_back(ranks);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Plans of several parts can be packed.
bool HasParts(OpKind kind, Algorithm algorithm) {
  if (algorithm == Algorithm::kDirect) return Exchanges(kind);
  return algorithm == Algorithm::kRing &&
         (kind == OpKind::kAllGather || kind == OpKind::kReduceScatter);
}

// The kind with every algorithm that supports it: scaled or not if it reduces, packed or not.
void AddKeys(OpKind kind, Rank root, int hosts, std::vector<PlanKey>* keys) {
  for (int i = 0; i < kAlgorithms; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    if (!Supports(algorithm, kind, hosts)) continue;
    for (bool scaled : {false, true}) {
      for (bool packed : {false, true}) {
        if ((scaled && !Reduces(kind)) || (packed && (hosts == 1 || !HasParts(kind, algorithm))))
          continue;
        keys->push_back({.kind = kind,
                         .algorithm = algorithm,
                         .root = root,
                         .scaled = scaled,
                         .packed = packed});
      }
    }
  }
}

// The collectives; rooted ones with every `root_step`-th rank.
std::vector<PlanKey> Keys(const Layout& layout, int root_step, int first_root = 0) {
  std::vector<PlanKey> keys;
  for (OpKind kind :
       {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kAllToAll}) {
    AddKeys(kind, Rank(0), layout.host_count(), &keys);
  }
  for (int root = first_root; root < layout.rank_count(); root += root_step) {
    for (OpKind kind : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kGather, OpKind::kScatter}) {
      AddKeys(kind, Rank(root), layout.host_count(), &keys);
    }
  }
  return keys;
}

// Each block has this many elements.
uint64_t CountOf(const Plan& plan, uint64_t block) {
  return plan.count_spans_blocks ? block * static_cast<uint64_t>(plan.blocks) : block;
}

bool HasInPlaceForm(const PlanKey& key) { return key.kind != OpKind::kAllToAll; }

// The plans as they are, all staged, or those of every second host.
std::vector<Plan> StagedInTurn(const std::vector<Plan>& plans, int turn) {
  std::vector<Plan> result = plans;
  for (size_t h = 0; h < plans.size(); ++h) {
    if (turn % 3 == 1 || (turn % 3 == 2 && h % 2 == 1)) result[h] = Staged(plans[h]);
  }
  return result;
}

// Counts the cases of one test and prints the number at its end. Numbers of staging slots take
// turns, as do hosts with staged plans.
class PlanSweep : public testing::Test {
 protected:
  void TearDown() override {
    std::printf("%d of %d cases proved\n", (cases_ + kProvesOneOf - 1) / kProvesOneOf, cases_);
  }

  // False after a failure, so that a broken builder does not print thousands of them.
  bool Prove(const PlanKey& key, const Layout& layout, const std::vector<Plan>& plans,
             const CheckOptions& options) {
    if (cases_ % kProvesOneOf != 0) {
      ++cases_;
      return true;
    }
    CheckOptions checked = options;
    checked.staging_slots = 1 + static_cast<uint32_t>(cases_) % options.slots;
    const absl::Status status = CheckPlans(StagedInTurn(plans, cases_++), layout, checked);
    EXPECT_TRUE(status.ok()) << Describe(key, layout) << ", " << plans[0].programs.size()
                             << " channels, count " << options.count << ", type "
                             << Name(options.type) << ", slots " << options.slots << " of "
                             << options.slot_bytes << ", staging slots " << checked.staging_slots
                             << ", skew " << options.skew << (options.in_place ? ", in place" : "")
                             << "\n"
                             << status;
    return status.ok();
  }

  int cases_ = 0;
};

// Small slots, so that even these counts need several rounds.
uint32_t SlotBytes(const Plan& plan) { return 64 * static_cast<uint32_t>(plan.max_pieces); }
// Packed: for one to four blocks, or less than one.
uint32_t SlotBytes(const Plan& plan, uint64_t block_bytes, int turn) {
  if (!plan.key.packed) return SlotBytes(plan);
  const uint64_t blocks = static_cast<uint64_t>(turn % 5);
  return static_cast<uint32_t>(std::max<uint64_t>(64, blocks * block_bytes));
}

TEST_F(PlanSweep, EveryLayoutAndCollectiveIsProved) {
  int turn = 0;
  for (int hosts = 1; hosts <= kMostHosts; ++hosts) {
    for (const std::vector<int>& ranks : RanksPerHost(hosts, kMostLocalRanks)) {
      for (const Layout& layout : {BlockLayout(ranks), InterleavedLayout(ranks)}) {
        const int channels = 1 + turn++ % 2;
        // All roots; on four hosts a third of them per layout, as there are so many layouts.
        const int root_step = hosts == kMostHosts ? 3 : 1;
        for (const PlanKey& key : Keys(layout, root_step, turn % root_step)) {
          const auto plans = BuildAll(key, layout, VariedOrders(hosts, channels));
          const uint32_t slots = 2 + static_cast<uint32_t>(turn++) % 3;
          // Slightly more than four rounds of one channel, for any number of blocks.
          CheckOptions options{.count = CountOf(plans[0], 67),
                               .slots = slots,
                               .slot_bytes = SlotBytes(plans[0], 67 * sizeof(float), turn / 3),
                               .skew = static_cast<uint32_t>(turn) % slots};
          ASSERT_TRUE(Prove(key, layout, plans, options));
          options.in_place = true;
          if (!HasInPlaceForm(key)) continue;
          ASSERT_TRUE(Prove(key, layout, plans, options));
        }
      }
    }
  }
}

TEST_F(PlanSweep, EveryLegalWindowIsProved) {
  for (int hosts = 1; hosts <= kMostHosts; ++hosts) {
    for (const std::vector<int>& ranks : RanksPerHost(hosts, 2)) {
      const Layout layout = InterleavedLayout(ranks);
      for (const PlanKey& key : Keys(layout, 2)) {
        const auto plans = BuildAll(key, layout, VariedOrders(hosts, 1));
        for (uint32_t slots = 1; slots <= 4; ++slots) {
          for (uint32_t skew = 0; skew < slots; ++skew) {
            // Seven rounds: groups of each size, with a remainder. If a round packs blocks, as
            // many as there are parts.
            const uint64_t count = CountOf(plans[0], 16 * 7) - 3;
            const auto blocks = static_cast<int>(slots + skew);
            ASSERT_TRUE(Prove(key, layout, plans,
                              {.count = count,
                               .slots = slots,
                               .slot_bytes = SlotBytes(plans[0], count * sizeof(float), blocks),
                               .skew = skew,
                               .in_place = HasInPlaceForm(key)}));
          }
        }
      }
    }
  }
}

TEST_F(PlanSweep, EveryCountAndTypeIsProved) {
  for (const std::vector<int>& ranks :
       {std::vector<int>{1}, {3}, {1, 1}, {2, 3}, {1, 1, 1}, {3, 1, 2}, {1, 2, 1, 2}}) {
    const Layout layout = InterleavedLayout(ranks);
    for (int channels = 1; channels <= 4; ++channels) {
      for (const PlanKey& key : Keys(layout, 3)) {
        const auto plans = BuildAll(key, layout, VariedOrders(layout.host_count(), channels));
        for (uint64_t count : kCounts) {
          for (DataType type : kTypes) {
            // Larger slots for large counts: the number of rounds matters, not that of elements.
            const uint32_t slot_bytes =
                SlotBytes(plans[0], count * SizeOf(type), channels) * (count > 64 ? 8 : 1);
            ASSERT_TRUE(Prove(key, layout, plans,
                              {.type = type,
                               .count = count,
                               .slots = 3,
                               .slot_bytes = slot_bytes,
                               .skew = 1,
                               .in_place = HasInPlaceForm(key) && count % 2 == 1}));
          }
        }
      }
    }
  }
}

TEST_F(PlanSweep, LongRingsAndManyLocalRanksAreProved) {
  for (const std::vector<int>& ranks :
       {std::vector<int>(8, 1), std::vector<int>(7, 2), std::vector<int>{8, 8}, {1, 8, 1}, {16}}) {
    const Layout layout = BlockLayout(ranks);
    for (const PlanKey& key : Keys(layout, 5)) {
      const auto plans = BuildAll(key, layout, VariedOrders(layout.host_count(), 2));
      for (uint32_t slots : {2u, 4u}) {
        ASSERT_TRUE(Prove(key, layout, plans,
                          {.count = CountOf(plans[0], 80),
                           .slots = slots,
                           .slot_bytes = SlotBytes(plans[0], 80 * sizeof(float), 3),
                           .skew = slots - 1,
                           .in_place = HasInPlaceForm(key) && slots == 2}));
      }
    }
  }
}

// The shape of trees differs with every number of hosts, and with every root.
TEST_F(PlanSweep, TreesOfEverySizeAreProved) {
  for (int hosts = 3; hosts <= 18; ++hosts) {
    const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), 1));
    const ChannelOrders orders = VariedOrders(hosts, 1 + hosts % 2);
    for (OpKind kind : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce}) {
      for (int root : {0, 1, hosts - 1}) {
        if (kind == OpKind::kAllReduce && root > 0) continue;
        const PlanKey key{.kind = kind, .algorithm = Algorithm::kTree, .root = Rank(root)};
        const auto plans = BuildAll(key, layout, orders);
        for (uint32_t slots : {2u, 3u}) {
          for (uint32_t skew : {0u, slots - 1}) {
            // Slightly more than two groups of rounds, per channel.
            const uint64_t rounds = (2 * slots + 1) * orders.rings.size();
            ASSERT_TRUE(Prove(key, layout, plans,
                              {.count = CountOf(plans[0], 16 * rounds),
                               .slots = slots,
                               .slot_bytes = SlotBytes(plans[0]),
                               .skew = skew,
                               .in_place = root == 0}));
          }
        }
      }
    }
  }
}

}  // namespace plan_sweep_test
}  // namespace mccs
