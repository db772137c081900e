// Production daemons run collectives over a simulated clock and network, in one thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/scenario.h"

namespace mccs {
namespace collective_test {

constexpr uint64_t kSeeds = 40;

TEST(SimCollective, EveryKindOnEveryLayoutGivesRightResults) {
  const std::vector<std::vector<int>> layouts = {
      {0}, {0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 0, 0, 1, 2, 2}, {2, 1, 0, 0}};
  for (auto [seed, random] : Seeds(kSeeds)) {
    const std::vector<int>& layout = layouts[random() % layouts.size()];
    const uint32_t slots = 2 + static_cast<uint32_t>(random() % 4);
    auto [world, job] = JobWorld({.seed = seed,
                                  .hosts = 3,
                                  .channels = 1 + static_cast<int>(random() % 3),
                                  .lanes = {.slots = slots, .slot_bytes = 16u << 10},
                                  .skew = static_cast<uint32_t>(random() % std::min(slots, 3u))},
                                 layout, 512 << 10);
    const uint64_t elements = (512 << 10) / sizeof(float);
    for (int operation = 0; operation < 6; ++operation) {
      const OpKind kind = static_cast<OpKind>(1 + random() % 8);  // every collective
      const uint64_t most = elements / static_cast<uint64_t>(job.ranks());
      const uint64_t count = 1 + random() % (operation % 2 == 0 ? most : 50);
      const int root = HasRoot(kind) ? static_cast<int>(random() % layout.size()) : 0;
      job.Fill(elements);
      job.PostAll(kind, count, root);
      ASSERT_TRUE(job.Complete()) << Name(kind) << " count " << count;
      ASSERT_EQ(job.Wrong(kind, count, root), 0u)
          << Name(kind) << " count " << count << " root " << root;
    }
  }
}

TEST(SimCollective, ManyCallsInFlightCompleteInOrder) {
  auto [world, job] = JobWorld({.seed = 7}, {0, 1, 1}, 64 << 10);
  job.Fill(1000);
  for (int i = 0; i < 100; ++i) job.PostAll(OpKind::kAllReduce, 10 * static_cast<uint64_t>(i) + 1);
  EXPECT_EQ(job.Finish(OpKind::kAllReduce, 991), "");
}

TEST(SimCollective, ReopensBrokenLanesWithoutLoss) {
  uint64_t reopened = 0;
  for (auto [seed, random] : Seeds(3 * kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed, .hosts = 3, .channels = 2}, {0, 1, 2}, 1 << 20);
    job.Fill(200'000);
    for (int i = 0; i < 3; ++i) job.PostAll(OpKind::kAllReduce, 200'000);
    for (int cut = 0; cut < 4; ++cut) {
      world.RunFor(RandomUs(random, 800));
      // The lanes in each host's report, which may be slightly old.
      const auto& reports = world.host(static_cast<int>(random() % 3)).controller().reports;
      ASSERT_EQ(reports.size(), 1u);
      const auto& lanes = reports.begin()->second.lanes();
      const std::string local = lanes[static_cast<int>(random() % lanes.size())].local();
      reopened += world.CutLane(local);
    }
    EXPECT_EQ(job.Finish(OpKind::kAllReduce, 200'000), "");
  }
  EXPECT_GT(reopened, Seeds(kSeeds).size());
}

TEST(SimCollective, BrokenControlLinkEndsTheCommunicatorWithAnError) {
  auto [world, job] = JobWorld({.seed = 6}, {0, 1}, 1 << 20);
  job.PostAll(OpKind::kAllReduce, 200'000);
  world.RunFor(100 * kNsPerUs);
  world.network().Cut(world.host(0).address(), world.host(1).address());
  ASSERT_TRUE(job.RunUntilFailed({0, 1}, kNsPerSec));
  EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("connection to host h1 lost"));
}

TEST(SimFailure, DeadProcessFailsTheOthersWithItsRank) {
  auto [world, job] = JobWorld({.seed = 3}, {0, 0, 1}, 1 << 20);
  job.Fill(200'000);
  job.Post(0, OpKind::kAllReduce, 200'000);
  job.Post(2, OpKind::kAllReduce, 200'000);
  world.RunFor(kNsPerMs);
  job.tenant(1).Kill();
  ASSERT_TRUE(job.RunUntilFailed({0, 2}, kNsPerSec));
  EXPECT_THAT(job.rank(2).failure(), testing::HasSubstr("rank 1"));
  EXPECT_EQ(job.rank(0).done(), 0u) << "the stream must stay blocked";
}

TEST(SimFailure, DeadDaemonFailsTheOtherHosts) {
  SimWorld world({.seed = 4, .hosts = 3});
  SimJob job(world, {0, 1, 2}, 1 << 20);
  SimJob bystanders(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  ASSERT_TRUE(bystanders.Form());
  job.Fill(200'000);
  job.PostAll(OpKind::kAllReduce, 200'000);
  world.RunFor(200 * kNsPerUs);
  world.Kill(2);
  ASSERT_TRUE(job.RunUntilFailed({0, 1}, kNsPerSec));
  EXPECT_EQ(bystanders.Run(OpKind::kAllReduce, 1000), "");
}

TEST(SimFailure, ReportsMismatchedCallsOnEveryRank) {
  auto [world, job] = JobWorld({.seed = 5}, {0, 1}, 1 << 16);
  job.Post(0, OpKind::kAllReduce, 1000);
  job.Post(1, OpKind::kAllGather, 500);
  ASSERT_TRUE(job.RunUntilFailed({0, 1}));
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("all_reduce #1 count 1000"));
    EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("all_gather #1 count 500"));
  }
}

// Idle ranks get the report too, but not while a program may still read that its last call
// succeeded.
TEST(SimFailure, DeathIsReportedToIdleRanksBeforeTheirNextCall) {
  auto [world, job] = JobWorld({.seed = 8}, {0, 0, 1}, 1 << 16);
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  ASSERT_TRUE(job.Complete());
  job.tenant(1).Kill();
  world.RunFor(200 * kNsPerMs);
  for (int r : {0, 2}) EXPECT_FALSE(job.rank(r).failed()) << job.rank(r).failure();
  ASSERT_TRUE(job.RunUntilFailed({0, 2}, 200 * kNsPerMs));
  for (int r : {0, 2}) {
    EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("rank 1 left: its process"));
    EXPECT_EQ(job.rank(r).region().failure.error.load(),
              static_cast<uint32_t>(wire::ErrorClass::kRemote));
    EXPECT_EQ(job.rank(r).region().failure.accepts_calls.load(), 1u);
    EXPECT_EQ(job.rank(r).done(), 1u);
  }
  // A call that needs the dead rank fails and releases no stream.
  job.Post(0, OpKind::kAllReduce, 100);
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).region().failure.accepts_calls.load() == 0; },
                             kNsPerSec));
  world.RunFor(kNsPerSec);
  EXPECT_EQ(job.rank(0).done(), 1u);
}

// Calls that do not need the dead rank succeed, before and after the report.
TEST(SimFailure, CallsWithoutTheDeadRankSucceed) {
  auto [world, job] = JobWorld({.seed = 9}, {0, 0, 1}, 1 << 16);
  job.Fill(100);
  job.tenant(1).Kill();
  ASSERT_TRUE(job.RunUntilFailed({2}, kNsPerSec));
  job.Post(0, {.sends = true, .peer = 2, .count = 100});
  job.Post(2, {.sends = false, .peer = 0, .count = 100});
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).done() == 1 && job.rank(2).done() == 1; }));
  EXPECT_EQ(job.rank(2).region().failure.accepts_calls.load(), 1u);
}

TEST(SimFailure, AbortFailsOnlyCallsThatNeedTheRank) {
  auto [world, job] = JobWorld({.seed = 6}, {0, 1}, 1 << 16);
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  ASSERT_TRUE(job.Complete());
  job.Abort(0);
  world.RunFor(100 * kNsPerMs);
  EXPECT_FALSE(job.rank(1).failed());
  job.Post(1, OpKind::kAllReduce, 100);
  world.RunFor(29 * kNsPerSec);
  EXPECT_FALSE(job.rank(1).failed()) << job.rank(1).failure();
  ASSERT_TRUE(job.RunUntilFailed({1}));
  EXPECT_THAT(job.rank(1).failure(), testing::HasSubstr("rank 0 was aborted"));
}

// The other ranks' own watchdogs detect the stuck operation, as with NCCL, and abort one by one.
TEST(SimFailure, AbortDuringOperationDoesNotFailTheOthersAtOnce) {
  for (const bool whole : {false, true}) {  // false: rank 0 has not called it
    for (const int first : {1, 2}) {        // 1: on rank 0's host, 2: on the other host
      SCOPED_TRACE(testing::Message()
                   << "whole " << whole << ", rank " << first << " is the first");
      auto [world, job] = JobWorld({.seed = 7}, {0, 0, 1, 1}, 1 << 20);
      for (int r = whole ? 0 : 1; r < 4; ++r) job.Post(r, OpKind::kAllReduce, 200'000);
      world.RunFor(100 * kNsPerUs);
      const std::vector<int> order = first == 1 ? std::vector<int>{1, 2, 3} : std::vector{2, 3, 1};
      for (int r : order) {
        ASSERT_FALSE(job.rank(r).failed()) << "rank " << r << ": " << job.rank(r).failure();
        job.Abort(r);
        ASSERT_TRUE(job.RunUntilEnded(r, kNsPerSec));
        EXPECT_EQ(job.rank(r).done(), 0u) << "rank " << r << ": only the shim releases streams";
        world.RunFor(5 * kNsPerSec);
      }
      if (!whole) job.Post(0, OpKind::kAllReduce, 200'000);
      EXPECT_FALSE(job.rank(0).failed()) << job.rank(0).failure();
      ASSERT_TRUE(job.RunUntilFailed({0}, 31 * kNsPerSec));
      EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("was aborted"));
      EXPECT_EQ(job.rank(0).done(), 0u);
    }
  }
}

TEST(SimFailure, RevokeAfterAbortEndsTheWorkAtOnce) {
  auto [world, job] = JobWorld({.seed = 7}, {0, 1, 1}, 1 << 20);
  job.PostAll(OpKind::kAllReduce, 200'000);
  world.RunFor(100 * kNsPerUs);
  job.Abort(1);
  ASSERT_TRUE(job.RunUntilEnded(1, kNsPerSec));
  for (int r : {0, 2}) {
    job.tenant(r).Revoke(job.rank(r));
    EXPECT_TRUE(job.RunUntilFailed({r}, kNsPerSec)) << "rank " << r;
  }
}

// ncclCommDestroy directly after ncclAllReduce: the operation completes first.
TEST(SimDestroy, CompletesPostedWorkFirst) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed, .hosts = 3}, {0, 0, 1, 2}, 256 << 10);
    job.Fill(50'000);
    std::vector<int> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    for (int r : order) {
      for (int i = 0; i < 3; ++i) job.Post(r, OpKind::kAllReduce, 50'000);
      job.Destroy(r);
      world.RunFor(static_cast<int64_t>(random() % 3) * kNsPerMs);
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }));
    for (int r = 0; r < 4; ++r) EXPECT_FALSE(job.rank(r).failed()) << job.rank(r).failure();
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 50'000), 0u);
    EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }));
  }
}

TEST(SimDestroy, AbortEndsAWaitingDestroy) {
  auto [world, job] = JobWorld({.seed = 2}, {0, 1}, 64 << 10);
  job.Post(0, OpKind::kAllReduce, 100);
  job.Destroy(0);
  world.RunFor(20 * kNsPerMs);
  EXPECT_FALSE(job.rank(0).ended);
  job.Abort(0);
  EXPECT_TRUE(job.RunUntilEnded(0));
}

// One process of the host waits in a call that the other one never posts.
TEST(SimDestroy, RankThatWaitsForADestroyedRankFails) {
  auto [world, job] = JobWorld({.seed = 3, .hosts = 1}, {0, 0}, 64 << 10);
  job.Post(0, OpKind::kAllReduce, 100);
  world.RunFor(kNsPerMs);
  job.Destroy(1);
  world.RunFor(29 * kNsPerSec);
  EXPECT_FALSE(job.rank(0).failed()) << "its own watchdog must fire first, as with NCCL";
  ASSERT_TRUE(job.RunUntilFailed({0}, 2 * kNsPerSec));
  EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("rank 1 was destroyed"));
}

// Ranks that post nothing after the departure are not affected.
TEST(SimDestroy, AffectsOnlyRanksThatPostMoreCalls) {
  for (const bool aborts : {false, true}) {
    for (const std::vector<int>& layout : {std::vector<int>{0, 0, 0}, {0, 1, 1}}) {
      auto [world, job] = JobWorld({.seed = 4}, layout, 64 << 10);
      job.PostAll(OpKind::kAllReduce, 100);
      ASSERT_TRUE(job.Complete());
      if (aborts) {
        job.Abort(2);
      } else {
        job.Destroy(2);
      }
      ASSERT_TRUE(job.RunUntilEnded(2));
      job.Post(0, OpKind::kAllReduce, 100);
      world.RunFor(20 * kNsPerSec);
      EXPECT_FALSE(job.rank(1).failed());
      job.Destroy(1);
      EXPECT_TRUE(job.RunUntilEnded(1, kNsPerSec));
      job.Abort(0);
      EXPECT_TRUE(job.RunUntilEnded(0, kNsPerSec));
    }
  }
}

TEST(SimInit, LogsTheMissingRankAfterFiveSeconds) {
  SimWorld world({.seed = 9});
  SimTenant& first = world.AddTenant(0);
  ASSERT_TRUE(world.GetUniqueId(first));
  SimRank& rank = first.Init(first.unique_id(), 3, 0);
  SimTenant& second = world.AddTenant(1);
  second.Init(first.unique_id(), 3, 2);
  world.RunFor(5500 * kNsPerMs);
  EXPECT_FALSE(rank.answered);
  EXPECT_TRUE(world.host(0).log().Contains("rank 1 has not joined"));
  EXPECT_TRUE(world.host(1).log().Contains("rank 1 has not joined"));
}

TEST(SimInit, RejectsAnotherTenant) {
  SimWorld world({.seed = 11});
  SimTenant& first = world.AddTenant(0, "blue");
  ASSERT_TRUE(world.GetUniqueId(first));
  SimRank& a = first.Init(first.unique_id(), 2, 0);
  SimRank& b = world.AddTenant(1, "red").Init(first.unique_id(), 2, 1);
  ASSERT_TRUE(world.RunUntil([&] { return a.answered && b.answered; }));
  EXPECT_THAT(b.status.text, testing::HasSubstr("tenant"));
}

TEST(SimHostileRequests, RecordOutsideItsBufferFailsOnlyItsCommunicator) {
  SimWorld world({.seed = 13});
  SimJob hostile(world, {0, 1}, 1 << 16);
  SimJob job(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(hostile.Form());
  ASSERT_TRUE(job.Form());
  hostile.Post(0, OpKind::kAllReduce, (1 << 16) / sizeof(float) + 1);
  ASSERT_TRUE(hostile.RunUntilFailed({0, 1}));
  EXPECT_THAT(hostile.rank(0).failure(), testing::HasSubstr("exceed buffer"));
  EXPECT_EQ(job.Run(OpKind::kAllReduce, 1000), "");
}

}  // namespace collective_test
}  // namespace mccs
