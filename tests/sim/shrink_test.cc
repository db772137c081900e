// Communicators that shrink, also with dead ranks, daemons or leaders; that grow; and that are
// revoked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/sim/scenario.h"

namespace mccs {
namespace shrink_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 20;
constexpr size_t kBytes = 256 << 10;

bool AllAnswered(const std::vector<SimJob::RankOfTenant>& seats) {
  return std::ranges::all_of(seats,
                             [](const SimJob::RankOfTenant& seat) { return seat.rank->answered; });
}

// The ranks not in `excluded` call shrink, in random order with pauses.
std::vector<SimJob::RankOfTenant> Shrink(SimWorld& world, SimJob& parent,
                                         const std::vector<int>& excluded, bool abort,
                                         std::mt19937_64& random) {
  std::vector<SimJob::RankOfTenant> seats;
  std::vector<int> order;
  for (int r = 0; r < parent.ranks(); ++r) {
    if (std::find(excluded.begin(), excluded.end(), r) == excluded.end()) order.push_back(r);
  }
  for (int r : order) seats.push_back({&parent.tenant(r), nullptr});
  std::vector<size_t> turns(order.size());
  for (size_t i = 0; i < turns.size(); ++i) turns[i] = i;
  std::shuffle(turns.begin(), turns.end(), random);
  for (size_t i : turns) {
    SimRank& rank = parent.rank(order[i]);
    seats[i].rank = &seats[i].tenant->Shrink(rank, excluded, abort);
    world.RunFor(RandomUs(random, 3000));
  }
  return seats;
}

void ExpectFormed(SimWorld& world, std::vector<SimJob::RankOfTenant>& seats) {
  ASSERT_TRUE(world.RunUntil([&] { return AllAnswered(seats); }, kNsPerSec));
  for (size_t i = 0; i < seats.size(); ++i) {
    ASSERT_EQ(seats[i].rank->status.error, wire::ErrorClass::kNone) << seats[i].rank->status.text;
    EXPECT_EQ(seats[i].rank->rank, static_cast<int>(i));
    EXPECT_EQ(seats[i].rank->ranks, static_cast<int>(seats.size()));
  }
  SimJob child(world, seats, 8192);
  EXPECT_EQ(child.Run(OpKind::kAllReduce, 1000), "");
}

TEST(SimShrink, RenumbersRemainingRanksAndKeepsTheParent) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 1, 2, 0}, kBytes);
    const std::vector<int> excluded = {static_cast<int>(seed % 5),
                                       static_cast<int>((seed + 2) % 5)};
    auto seats = Shrink(world, parent, excluded, false, random);
    ExpectFormed(world, seats);
    auto again = Shrink(world, parent, excluded, false, random);  // again with the same ranks
    ExpectFormed(world, again);
    EXPECT_EQ(parent.Run(OpKind::kAllReduce, 1000), "");
  }
}

// A rank, perhaps the leader's, dies during an operation; the remaining ranks continue.
TEST(SimShrink, AbortContinuesWithoutTheDeadRank) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 1, 2}, kBytes);
    parent.Fill(60'000);
    parent.PostAll(OpKind::kAllReduce, 60'000);
    world.RunFor(RandomUs(random, 400));
    const int dead = static_cast<int>(seed % 4);
    parent.tenant(dead).Kill();
    world.RunFor(RandomUs(random, 2000));
    auto seats = Shrink(world, parent, {dead}, true, random);
    ExpectFormed(world, seats);
    for (int r = 0; r < 4; ++r) {
      EXPECT_TRUE(r == dead || parent.rank(r).failed()) << "rank " << r;
    }
  }
}

TEST(SimShrink, AbortContinuesWithoutTheLeadersDaemon) {
  std::mt19937_64 random(1);
  auto [world, parent] = JobWorld({.seed = 1, .hosts = 3}, {0, 1, 2, 0, 1}, kBytes);
  parent.PostAll(OpKind::kAllReduce, 60'000);
  world.RunFor(100 * kNsPerUs);
  world.Kill(0);
  auto seats = Shrink(world, parent, {0, 3}, true, random);
  ExpectFormed(world, seats);
}

// The remaining ranks call one after the other: one that has not called yet must not see a failed
// parent.
TEST(SimShrink, AbortDoesNotFailRanksThatHaveNotCalledYet) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 0, 0, 0}, {0, 1, 1, 0}}) {
    auto [world, parent] = JobWorld({.seed = 5}, layout, kBytes);
    for (int r : {0, 1}) parent.Post(r, OpKind::kAllReduce, 1000);
    world.RunFor(kNsPerMs);
    const std::vector<int> excluded = {2, 3};
    std::vector<SimJob::RankOfTenant> seats = {{&parent.tenant(0), nullptr},
                                               {&parent.tenant(1), nullptr}};
    seats[0].rank = &seats[0].tenant->Shrink(parent.rank(0), excluded, true);
    world.RunFor(kNsPerSec);
    EXPECT_TRUE(parent.rank(0).failed()) << "its pending operation must end";
    for (int r : {1, 2, 3}) EXPECT_FALSE(parent.rank(r).failed()) << "rank " << r;
    seats[1].rank = &seats[1].tenant->Shrink(parent.rank(1), excluded, true);
    ExpectFormed(world, seats);
    EXPECT_TRUE(parent.rank(1).failed());
    parent.Destroy(2);
    EXPECT_TRUE(parent.RunUntilEnded(2, kNsPerSec));
    EXPECT_FALSE(parent.rank(3).failed());
    EXPECT_TRUE(parent.RunUntilFailed({3}, 31 * kNsPerSec));
    EXPECT_THAT(parent.rank(3).failure(), HasSubstr("NCCL_SHRINK_ABORT"));
  }
}

TEST(SimShrink, RejectsFailedParentWithoutAbortFlagAndInvalidLists) {
  auto [world, parent] = JobWorld({.seed = 2, .hosts = 2}, {0, 1, 1}, kBytes);
  for (const std::vector<int>& list :
       std::vector<std::vector<int>>{{}, {0}, {3}, {-1}, {1, 1}, {1, 2, 1, 2}}) {
    const SimRank& rejected = parent.tenant(0).Shrink(parent.rank(0), list);
    ASSERT_TRUE(world.RunUntil([&] { return rejected.answered; }, kNsPerSec));
    EXPECT_EQ(rejected.status.error, wire::ErrorClass::kInvalidArgument) << rejected.status.text;
  }
  EXPECT_EQ(parent.Run(OpKind::kAllReduce, 1000), "");
  parent.PostAll(OpKind::kAllReduce, 60'000);
  world.RunFor(50 * kNsPerUs);
  parent.tenant(2).Kill();
  ASSERT_TRUE(parent.RunUntilFailed({0}, kNsPerSec));
  const SimRank& rejected = parent.tenant(0).Shrink(parent.rank(0), {2});
  ASSERT_TRUE(world.RunUntil([&] { return rejected.answered; }, kNsPerSec));
  EXPECT_THAT(rejected.status.text, HasSubstr("NCCL_SHRINK_ABORT"));
}

TEST(SimShrink, LongListIsSentInParts) {
  SimWorld world({.seed = 3, .hosts = 2});
  std::vector<int> hosts(200);
  for (size_t r = 0; r < hosts.size(); ++r) hosts[r] = static_cast<int>(r / 100);
  SimJob parent(world, hosts, 16);
  ASSERT_TRUE(parent.Form());
  std::vector<int> excluded;
  for (int r = 0; r < 198; ++r) excluded.push_back(r);
  std::mt19937_64 random(3);
  auto seats = Shrink(world, parent, excluded, false, random);
  ExpectFormed(world, seats);
}

// ---- Revoke -------------------------------------------------------------------------------------

TEST(SimRevoke, EndsAllWorkAndAllowsSplitAndShrink) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 2, 2}, kBytes);
    for (int r = 0; r < 3; ++r) parent.Post(r, OpKind::kAllReduce, 60'000);  // rank 3 never calls
    world.RunFor(RandomUs(random, 300));
    for (int r = 0; r < 4; ++r) {
      parent.tenant(r).Revoke(parent.rank(r));
      world.RunFor(RandomUs(random, 300));
    }
    ASSERT_TRUE(world.RunUntil([&] { return parent.Ended(); }, kNsPerSec));
    std::vector<SimJob::RankOfTenant> seats;
    for (int r = 0; r < 4; ++r) {
      EXPECT_TRUE(parent.rank(r).failed());
      EXPECT_THAT(parent.rank(r).failure(), HasSubstr("ncclCommRevoke"));
      seats.push_back({&parent.tenant(r), &parent.tenant(r).Split(parent.rank(r), 0, 0)});
    }
    ExpectFormed(world, seats);
    auto fewer = Shrink(world, parent, {0}, false, random);
    ExpectFormed(world, fewer);
  }
}

TEST(SimRevoke, SplitOfARevokedCommunicatorFailsWhenARankDies) {
  auto [world, parent] = JobWorld({.seed = 4, .hosts = 2}, {0, 1, 1}, kBytes);
  for (int r = 0; r < 3; ++r) parent.tenant(r).Revoke(parent.rank(r));
  ASSERT_TRUE(world.RunUntil([&] { return parent.Ended(); }, kNsPerSec));
  const SimRank& waits = parent.tenant(0).Split(parent.rank(0), 0, 0);
  world.RunFor(kNsPerMs);
  EXPECT_FALSE(waits.answered);
  parent.tenant(2).Kill();
  ASSERT_TRUE(world.RunUntil([&] { return waits.answered; }, kNsPerSec));
  EXPECT_THAT(waits.status.text, HasSubstr("rank 2"));
}

// ---- Grow ---------------------------------------------------------------------------------------

TEST(SimGrow, OldRanksKeepTheirNumbersAndNewRanksJoinById) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, parent] = JobWorld({.seed = seed, .hosts = 3}, {1, 0}, kBytes);
    const int root = static_cast<int>(seed % 2);
    SimTenant& root_tenant = parent.tenant(root);
    root_tenant.RequestGrowId(parent.rank(root));
    ASSERT_TRUE(world.RunUntil([&] { return root_tenant.has_unique_id(); }));
    std::vector<SimJob::RankOfTenant> seats = {{&parent.tenant(0), nullptr},
                                               {&parent.tenant(1), nullptr},
                                               {&world.AddTenant(2), nullptr},
                                               {&world.AddTenant(1), nullptr}};
    std::vector<int> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    for (int r : order) {
      SimTenant& tenant = *seats[static_cast<size_t>(r)].tenant;
      ASSERT_TRUE(world.RunUntil([&] { return tenant.connected(); }));
      seats[static_cast<size_t>(r)].rank =
          r < 2 ? &tenant.Grow(parent.rank(r), 4) : &tenant.Init(root_tenant.unique_id(), 4, r);
      world.RunFor(RandomUs(random, 5000));
    }
    ExpectFormed(world, seats);
    EXPECT_EQ(parent.Run(OpKind::kAllReduce, 1000), "");
  }
}

}  // namespace shrink_test
}  // namespace mccs
