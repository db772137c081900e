// ncclCommSplit across daemons: the members and the order of each new communicator, and the errors
// of waiting ranks when one leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/sim/scenario.h"

namespace mccs {
namespace split_test {

using testing::AnyOf;
using testing::HasSubstr;

constexpr uint64_t kSeeds = 30;

struct Choice {
  int color;
  int key;
};

// One split of a job, by the choices of its ranks.
class SplitRun {
 public:
  explicit SplitRun(SimJob& parent) : parent_(parent), ranks_(parent.ranks()) {}

  void Call(int r, Choice choice) {
    choices_[r] = choice;
    ranks_[static_cast<size_t>(r)] =
        &parent_.tenant(r).Split(parent_.rank(r), choice.color, choice.key);
  }
  SimRank& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }
  bool Answered() const {
    return std::ranges::all_of(
        ranks_, [](const SimRank* rank) { return rank == nullptr || rank->answered; });
  }
  // The parent's ranks of a color, in the order that NCCL guarantees.
  std::vector<int> Members(int color) const {
    std::vector<int> members;
    for (const auto& [r, choice] : choices_) {
      if (choice.color == color) members.push_back(r);
    }
    std::stable_sort(members.begin(), members.end(),
                     [&](int a, int b) { return choices_.at(a).key < choices_.at(b).key; });
    return members;
  }
  std::vector<SimJob::RankOfTenant> RanksOfColor(int color) {
    std::vector<SimJob::RankOfTenant> seats;
    for (int r : Members(color)) seats.push_back({&parent_.tenant(r), &rank(r)});
    return seats;
  }

 private:
  SimJob& parent_;
  std::vector<SimRank*> ranks_;
  std::map<int, Choice> choices_;
};

TEST(SimSplit, OrdersRanksOfAColorByKey) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {2, 0, 1, 1, 0, 2, 2}, 8192);
    SplitRun split(parent);
    for (int r = 0; r < parent.ranks(); ++r) {
      split.Call(r, {static_cast<int>(random() % 4) - 1, static_cast<int>(random() % 3) - 1});
      world.RunFor(RandomUs(random, 300));
    }
    ASSERT_TRUE(world.RunUntil([&] { return split.Answered(); }));
    for (int r = 0; r < parent.ranks(); ++r) {
      EXPECT_EQ(split.rank(r).status.error, wire::ErrorClass::kNone) << split.rank(r).status.text;
    }
    for (int r : split.Members(-1)) {
      EXPECT_EQ(split.rank(r).handle, wire::kNoCommHandle);
      EXPECT_EQ(split.rank(r).memory.data(), nullptr);
    }
    for (int color = 0; color < 3; ++color) {
      const std::vector<int> members = split.Members(color);
      for (size_t i = 0; i < members.size(); ++i) {
        EXPECT_EQ(split.rank(members[i]).rank, static_cast<int>(i));
        EXPECT_EQ(split.rank(members[i]).ranks, static_cast<int>(members.size()));
      }
      if (members.empty()) continue;
      SimJob child(world, split.RanksOfColor(color), 8192);
      EXPECT_EQ(child.Run(OpKind::kAllReduce, 1000), "");
    }
    EXPECT_EQ(parent.Run(OpKind::kAllReduce, 1000), "");
  }
}

// Each rank's calls are in order, but ranks may be several calls apart, and other work continues.
TEST(SimSplit, MatchesSplitsByTheirOrder) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 2}, {0, 1, 1, 0}, 256 << 10);
    parent.Fill(60'000);
    parent.PostAll(OpKind::kAllReduce, 60'000);
    constexpr int kSplits = 5;
    std::vector<SplitRun> splits(kSplits, SplitRun(parent));
    std::vector<int> next(4, 0);
    for (int i = 0; i < 4 * kSplits;) {
      const int r = static_cast<int>(random() % 4);
      if (next[r] == kSplits) continue;
      const int s = next[r]++;
      splits[s].Call(r, {(r + s) % 2, -r});
      world.RunFor(RandomUs(random, 100));
      ++i;
    }
    ASSERT_TRUE(world.RunUntil(
        [&] { return std::ranges::all_of(splits, [](auto& s) { return s.Answered(); }); }));
    for (SplitRun& split : splits) {
      for (int color : {0, 1}) {
        SimJob child(world, split.RanksOfColor(color), 8192);
        ASSERT_EQ(child.ranks(), 2);
        EXPECT_EQ(child.Run(OpKind::kAllReduce, 1000), "");
      }
    }
    EXPECT_EQ(parent.Finish(OpKind::kAllReduce, 60'000), "");
  }
}

TEST(SimSplit, DerivedCommunicatorOutlivesItsParentAndCanBeSplit) {
  auto [world, parent] = JobWorld({.seed = 3, .hosts = 2}, {0, 1, 0, 1}, 8192);
  SplitRun split(parent);
  for (int r = 0; r < 4; ++r) split.Call(r, {0, -r});
  ASSERT_TRUE(world.RunUntil([&] { return split.Answered(); }));
  SimJob child(world, split.RanksOfColor(0), 8192);
  for (int r = 0; r < 4; ++r) parent.Destroy(r);
  ASSERT_TRUE(world.RunUntil([&] { return parent.Ended(); }));
  SplitRun again(child);
  for (int r = 0; r < 4; ++r) again.Call(r, {r / 2, 0});
  ASSERT_TRUE(world.RunUntil([&] { return again.Answered(); }));
  for (int color : {0, 1}) {
    SimJob grandchild(world, again.RanksOfColor(color), 8192);
    EXPECT_EQ(grandchild.Run(OpKind::kAllReduce, 1000), "");
  }
  EXPECT_EQ(child.Run(OpKind::kAllReduce, 1000), "");
}

// ---- Departing ranks ----------------------------------------------------------------------------

enum class End { kDestroy, kAbort, kKill };

// Ranks that have called wait for a rank that leaves without calling.
TEST(SimSplit, DepartedRankEndsTheWaitOfTheOthers) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 1, 2}, 8192);
    const int quitter = static_cast<int>(seed % 4);
    const End end = static_cast<End>(seed / 4 % 3);
    SplitRun split(parent);
    for (int r = 0; r < 4; ++r) {
      if (r != quitter) split.Call(r, {0, 0});
    }
    world.RunFor(static_cast<int64_t>(seed) * 20 * kNsPerUs);
    if (end == End::kDestroy) parent.Destroy(quitter);
    if (end == End::kAbort) parent.Abort(quitter);
    if (end == End::kKill) parent.tenant(quitter).Kill();
    ASSERT_TRUE(world.RunUntil([&] { return split.Answered(); }, kNsPerSec));
    for (int r = 0; r < 4; ++r) {
      if (r == quitter) continue;
      EXPECT_EQ(split.rank(r).status.error, wire::ErrorClass::kRemote);
      EXPECT_THAT(split.rank(r).status.text,
                  AnyOf(HasSubstr("rank " + std::to_string(quitter)), HasSubstr("host h")));
    }
    // A later split fails at once.
    SplitRun late(parent);
    for (int r = 0; r < 4; ++r) {
      if (r != quitter) late.Call(r, {0, 0});
    }
    ASSERT_TRUE(world.RunUntil([&] { return late.Answered(); }, kNsPerSec));
    EXPECT_NE(late.rank((quitter + 1) % 4).status.error, wire::ErrorClass::kNone);
  }
}

// A rank leaves after all have called, at any time until the derived communicators are formed.
TEST(SimSplit, DepartureWhileFormingFailsOnlyItsColor) {
  for (auto [seed, random] : Seeds(4 * kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 1, 2, 2, 0}, 8192);
    const int quitter = static_cast<int>(random() % 6);
    const bool kill = random() % 2 == 0;
    SplitRun split(parent);
    for (int r = 0; r < 6; ++r) split.Call(r, {r % 2, 0});
    world.RunFor(RandomUs(random, 1500));
    if (kill) {
      parent.tenant(quitter).Kill();
    } else {
      parent.tenant(quitter).Abort(split.rank(quitter));
    }
    ASSERT_TRUE(world.RunUntil(
        [&] {
          for (int r = 0; r < 6; ++r) {
            if (r != quitter && !split.rank(r).answered) return false;
          }
          return true;
        },
        kNsPerSec));
    for (int r = 0; r < 6; ++r) {
      if (r == quitter) continue;
      const bool ok = split.rank(r).status.error == wire::ErrorClass::kNone;
      // The other color is not affected, unless the parent still needed the rank.
      EXPECT_TRUE(ok || kill || r % 2 == quitter % 2) << split.rank(r).status.text;
      if (!ok) {
        EXPECT_THAT(split.rank(r).status.text, AnyOf(HasSubstr("rank"), HasSubstr("host")));
      }
      parent.tenant(r).Kill();
    }
    parent.tenant(quitter).Kill();
    EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }, 10 * kNsPerSec));
  }
}

TEST(SimSplit, DeathOfTheLeadersDaemonEndsTheWait) {
  auto [world, parent] = JobWorld({.seed = 5, .hosts = 2}, {0, 1, 1}, 8192);
  SplitRun split(parent);
  split.Call(1, {0, 0});
  split.Call(2, {0, 0});
  world.RunFor(kNsPerMs);
  world.Kill(0);
  ASSERT_TRUE(world.RunUntil([&] { return split.Answered(); }, kNsPerSec));
  EXPECT_THAT(split.rank(1).status.text, HasSubstr("host h0"));
}

TEST(SimSplit, RejectsTooManyPendingCalls) {
  auto [world, parent] = JobWorld({.seed = 6, .hosts = 2}, {0, 1}, 8192);
  SimRank* last = nullptr;
  for (size_t i = 0; i <= kMaxPendingSplits; ++i) {
    last = &parent.tenant(1).Split(parent.rank(1), 0, 0);
  }
  ASSERT_TRUE(world.RunUntil([&] { return last->answered; }, kNsPerSec));
  EXPECT_EQ(last->status.error, wire::ErrorClass::kSystem);
  EXPECT_THAT(last->status.text, HasSubstr("limit"));
  EXPECT_EQ(parent.Run(OpKind::kAllReduce, 1000), "");
}

// The largest number of ranks that got the answer to a split in one turn of the daemons.
class AnswersPerTurn final : public SimParticipant {
 public:
  explicit AnswersPerTurn(SimWorld& world) { world.AddParticipant(*this); }

  void Add(const SimRank& rank) { waiting_.push_back(&rank); }
  bool Poll() override {
    most_ = std::max(most_, std::erase_if(waiting_, [](auto* rank) { return rank->answered; }));
    return false;
  }
  MonotonicNs NextEvent() const override { return kNever; }
  bool AllAnswered() const { return waiting_.empty(); }
  size_t most() const { return most_; }

 private:
  std::vector<const SimRank*> waiting_;
  size_t most_ = 0;
};

// The last rank's calls end splits that all others have called before.
void CheckOneSplitEndsPerTurn(const std::vector<int>& host_of_rank, int last) {
  constexpr int kSplits = 16;
  auto [world, parent] =
      JobWorld({.seed = 8, .hosts = 1 + std::ranges::max(host_of_rank)}, host_of_rank, 8192);
  AnswersPerTurn answers(world);
  const auto call = [&, &parent = parent](int r) {
    for (int i = 0; i < kSplits; ++i) answers.Add(parent.tenant(r).Split(parent.rank(r), 0, 0));
  };
  for (int r = 0; r < parent.ranks(); ++r) {
    if (r != last) call(r);
  }
  world.RunFor(kNsPerMs);
  ASSERT_EQ(answers.most(), 0u);
  call(last);
  ASSERT_TRUE(world.RunUntil([&] { return answers.AllAnswered(); }));
  EXPECT_LE(answers.most(), host_of_rank.size());
}

// Each rank of a host joins by the end of a split, which takes long.
TEST(SimSplit, OneSplitEndsPerTurn) {
  CheckOneSplitEndsPerTurn({0, 0, 0, 0}, 3);
  CheckOneSplitEndsPerTurn({0, 1, 1, 1}, 0);
}

TEST(SimSplit, RejectsInvalidHandlesAndColors) {
  auto [world, parent] = JobWorld({.seed = 7, .hosts = 1}, std::vector<int>{0}, 8192);
  SimRank invalid_rank;
  invalid_rank.handle = 77;
  const SimRank& unknown = parent.tenant(0).Split(invalid_rank, 0, 0);
  const SimRank& negative = parent.tenant(0).Split(parent.rank(0), -2, 0);
  ASSERT_TRUE(world.RunUntil([&] { return unknown.answered && negative.answered; }));
  EXPECT_EQ(unknown.status.error, wire::ErrorClass::kInvalidArgument);
  EXPECT_EQ(negative.status.error, wire::ErrorClass::kInvalidArgument);
  EXPECT_EQ(parent.Run(OpKind::kAllReduce, 1000), "");
}

}  // namespace split_test
}  // namespace mccs
