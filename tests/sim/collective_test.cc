// Production daemons run collectives over a simulated clock and network, in one thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace collective_test {

constexpr uint64_t kSeeds = 40;

TEST(SimCollective, TwoDaemonsAllReduce) {
  SimWorld world({.seed = 1, .network = {}});
  SimJob job(world, {0, 1}, 1 << 20);
  ASSERT_TRUE(job.Form());
  job.Fill(100'003);
  job.PostAll(OpKind::kAllReduce, 100'003);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 100'003), 0u);
}

TEST(SimCollective, EveryKindOnEveryLayoutGivesRightResults) {
  const std::vector<std::vector<int>> layouts = {
      {0}, {0, 0}, {0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 0, 0, 1, 2, 2}, {2, 1, 0, 0}};
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::vector<int>& layout = layouts[random() % layouts.size()];
    const uint32_t slots = 2 + static_cast<uint32_t>(random() % 4);
    SimWorld world({.seed = seed,
                    .hosts = 3,
                    .channels = 1 + static_cast<int>(random() % 3),
                    .lanes = {.slots = slots, .slot_bytes = 16u << 10},
                    .skew = static_cast<uint32_t>(random() % std::min(slots, 3u)),
                    .network = {}});
    SimJob job(world, layout, 512 << 10);
    ASSERT_TRUE(job.Form());
    const uint64_t elements = (512 << 10) / sizeof(float);
    for (int operation = 0; operation < 6; ++operation) {
      const OpKind kind = static_cast<OpKind>(1 + random() % 8);  // every collective
      const uint64_t most = elements / static_cast<uint64_t>(job.ranks());
      const uint64_t count = 1 + random() % (operation % 2 == 0 ? most : 50);
      const int root = HasRoot(kind) ? static_cast<int>(random() % layout.size()) : 0;
      job.Fill(elements);
      job.PostAll(kind, count, root);
      ASSERT_TRUE(world.RunUntil([&] { return job.Done(); })) << Name(kind) << " count " << count;
      ASSERT_EQ(job.Wrong(kind, count, root), 0u)
          << Name(kind) << " count " << count << " root " << root;
    }
  }
}

TEST(SimCollective, ManyCallsInFlightCompleteInOrder) {
  SimWorld world({.seed = 7, .network = {}});
  SimJob job(world, {0, 1, 1}, 64 << 10);
  ASSERT_TRUE(job.Form());
  job.Fill(1000);
  for (int i = 0; i < 100; ++i) job.PostAll(OpKind::kAllReduce, 10 * static_cast<uint64_t>(i) + 1);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 991), 0u);
}

TEST(SimCollective, ReopensBrokenLanesWithoutLoss) {
  uint64_t reopened = 0;
  for (uint64_t seed = 1; seed <= 3 * kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SimWorld world({.seed = seed, .hosts = 3, .channels = 2, .network = {}});
    SimJob job(world, {0, 1, 2}, 1 << 20);
    ASSERT_TRUE(job.Form());
    job.Fill(200'000);
    for (int i = 0; i < 3; ++i) job.PostAll(OpKind::kAllReduce, 200'000);
    for (int cut = 0; cut < 4; ++cut) {
      world.RunFor(static_cast<int64_t>(random() % 800) * kNsPerUs);
      // The lanes in each host's report, which may be slightly old.
      const auto& reports = world.host(static_cast<int>(random() % 3)).controller().reports;
      ASSERT_EQ(reports.size(), 1u);
      const auto& lanes = reports.begin()->second.lanes;
      const std::string local = lanes[random() % lanes.size()].local;
      reopened += world.CutLane(local);
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.Done(); })) << job.rank(0).failure();
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 200'000), 0u);
  }
  EXPECT_GT(reopened, kSeeds);
}

// No operation runs meanwhile: the lane is restored before the next operation needs it.
TEST(SimCollective, RestoresLaneThatBreaksWhenIdle) {
  SimWorld world({.seed = 5, .network = {}});
  SimJob job(world, {0, 1}, 1 << 20);
  ASSERT_TRUE(job.Form());
  ASSERT_TRUE(
      world.CutLane(world.host(0).controller().reports.begin()->second.lanes.front().local));
  world.RunFor(10 * kNsPerSec);
  job.Fill(1000);
  job.PostAll(OpKind::kAllReduce, 1000);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
}

TEST(SimCollective, BrokenControlLinkEndsTheCommunicatorWithAnError) {
  SimWorld world({.seed = 6, .network = {}});
  SimJob job(world, {0, 1}, 1 << 20);
  ASSERT_TRUE(job.Form());
  job.PostAll(OpKind::kAllReduce, 200'000);
  world.RunFor(100 * kNsPerUs);
  world.network().Cut(world.host(0).address(), world.host(1).address());
  ASSERT_TRUE(
      world.RunUntil([&] { return job.rank(0).failed() && job.rank(1).failed(); }, kNsPerSec));
  EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("connection to host h1 lost"));
}

TEST(SimFailure, DeadProcessFailsTheOthersWithItsRank) {
  SimWorld world({.seed = 3, .network = {}});
  SimJob job(world, {0, 0, 1}, 1 << 20);
  ASSERT_TRUE(job.Form());
  job.Fill(200'000);
  job.Post(0, OpKind::kAllReduce, 200'000);
  job.Post(2, OpKind::kAllReduce, 200'000);
  world.RunFor(kNsPerMs);
  job.tenant(1).Kill();
  ASSERT_TRUE(
      world.RunUntil([&] { return job.rank(0).failed() && job.rank(2).failed(); }, kNsPerSec));
  EXPECT_THAT(job.rank(2).failure(), testing::HasSubstr("rank 1"));
  EXPECT_EQ(job.rank(0).done(), 0u) << "the stream must stay blocked";
}

TEST(SimFailure, DeadDaemonFailsTheOtherHosts) {
  SimWorld world({.seed = 4, .hosts = 3, .network = {}});
  SimJob job(world, {0, 1, 2}, 1 << 20);
  SimJob bystanders(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  ASSERT_TRUE(bystanders.Form());
  job.Fill(200'000);
  job.PostAll(OpKind::kAllReduce, 200'000);
  world.RunFor(200 * kNsPerUs);
  world.host(2).Kill(world.network());
  ASSERT_TRUE(
      world.RunUntil([&] { return job.rank(0).failed() && job.rank(1).failed(); }, kNsPerSec));
  bystanders.Fill(1000);
  bystanders.PostAll(OpKind::kAllReduce, 1000);
  ASSERT_TRUE(world.RunUntil([&] { return bystanders.Done(); }));
  EXPECT_EQ(bystanders.Wrong(OpKind::kAllReduce, 1000), 0u);
}

TEST(SimFailure, ReportsMismatchedCallsOnEveryRank) {
  SimWorld world({.seed = 5, .network = {}});
  SimJob job(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  job.Post(0, OpKind::kAllReduce, 1000);
  job.Post(1, OpKind::kAllGather, 500);
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).failed() && job.rank(1).failed(); }));
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("all_reduce #1 count 1000"));
    EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("all_gather #1 count 500"));
  }
}

// Idle ranks get the report too, but not while a program may still read that its last call
// succeeded.
TEST(SimFailure, DeathIsReportedToIdleRanksBeforeTheirNextCall) {
  SimWorld world({.seed = 8, .network = {}});
  SimJob job(world, {0, 0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  job.tenant(1).Kill();
  world.RunFor(200 * kNsPerMs);
  for (int r : {0, 2}) EXPECT_FALSE(job.rank(r).failed()) << job.rank(r).failure();
  ASSERT_TRUE(
      world.RunUntil([&] { return job.rank(0).failed() && job.rank(2).failed(); }, 200 * kNsPerMs));
  for (int r : {0, 2}) {
    EXPECT_THAT(job.rank(r).failure(), testing::HasSubstr("rank 1 is gone: its process"));
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
  SimWorld world({.seed = 9, .network = {}});
  SimJob job(world, {0, 0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  job.Fill(100);
  job.tenant(1).Kill();
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(2).failed(); }, kNsPerSec));
  job.Post(0, {.sends = true, .peer = 2, .count = 100});
  job.Post(2, {.sends = false, .peer = 0, .count = 100});
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).done() == 1 && job.rank(2).done() == 1; }));
  EXPECT_EQ(job.rank(2).region().failure.accepts_calls.load(), 1u);
}

TEST(SimFailure, AbortFailsOnlyCallsThatNeedTheRank) {
  SimWorld world({.seed = 6, .network = {}});
  SimJob job(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  job.tenant(0).Abort(job.rank(0));
  world.RunFor(100 * kNsPerMs);
  EXPECT_FALSE(job.rank(1).failed());
  job.Post(1, OpKind::kAllReduce, 100);
  world.RunFor(29 * kNsPerSec);
  EXPECT_FALSE(job.rank(1).failed()) << job.rank(1).failure();
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(1).failed(); }));
  EXPECT_THAT(job.rank(1).failure(), testing::HasSubstr("rank 0 was aborted"));
}

// The other ranks' own watchdogs detect the stuck operation, as with NCCL, and abort one by one.
TEST(SimFailure, AbortDuringOperationDoesNotFailTheOthersAtOnce) {
  for (const bool whole : {false, true}) {  // false: rank 0 has not called it
    for (const int first : {1, 2}) {        // 1: on rank 0's host, 2: on the other host
      SCOPED_TRACE(testing::Message()
                   << "whole " << whole << ", rank " << first << " is the first");
      SimWorld world({.seed = 7, .network = {}});
      SimJob job(world, {0, 0, 1, 1}, 1 << 20);
      ASSERT_TRUE(job.Form());
      for (int r = whole ? 0 : 1; r < 4; ++r) job.Post(r, OpKind::kAllReduce, 200'000);
      world.RunFor(100 * kNsPerUs);
      const std::vector<int> order = first == 1 ? std::vector<int>{1, 2, 3} : std::vector{2, 3, 1};
      for (int r : order) {
        ASSERT_FALSE(job.rank(r).failed()) << "rank " << r << ": " << job.rank(r).failure();
        job.tenant(r).Abort(job.rank(r));
        ASSERT_TRUE(world.RunUntil([&] { return job.rank(r).ended; }, kNsPerSec));
        EXPECT_EQ(job.rank(r).done(), 0u) << "rank " << r << ": only the shim releases streams";
        world.RunFor(5 * kNsPerSec);
      }
      if (!whole) job.Post(0, OpKind::kAllReduce, 200'000);
      EXPECT_FALSE(job.rank(0).failed()) << job.rank(0).failure();
      ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).failed(); }, 31 * kNsPerSec));
      EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("was aborted"));
      EXPECT_EQ(job.rank(0).done(), 0u);
    }
  }
}

TEST(SimFailure, RevokeAfterAbortEndsTheWorkAtOnce) {
  SimWorld world({.seed = 7, .network = {}});
  SimJob job(world, {0, 1, 1}, 1 << 20);
  ASSERT_TRUE(job.Form());
  job.PostAll(OpKind::kAllReduce, 200'000);
  world.RunFor(100 * kNsPerUs);
  job.tenant(1).Abort(job.rank(1));
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(1).ended; }, kNsPerSec));
  for (int r : {0, 2}) {
    job.tenant(r).Revoke(job.rank(r));
    EXPECT_TRUE(world.RunUntil([&] { return job.rank(r).failed(); }, kNsPerSec)) << "rank " << r;
  }
}

// ncclCommDestroy directly after ncclAllReduce: the operation completes first.
TEST(SimDestroy, CompletesPostedWorkFirst) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SimWorld world({.seed = seed, .hosts = 3, .network = {}});
    SimJob job(world, {0, 0, 1, 2}, 256 << 10);
    ASSERT_TRUE(job.Form());
    job.Fill(50'000);
    std::vector<int> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    for (int r : order) {
      for (int i = 0; i < 3; ++i) job.Post(r, OpKind::kAllReduce, 50'000);
      job.tenant(r).Destroy(job.rank(r));
      world.RunFor(static_cast<int64_t>(random() % 3) * kNsPerMs);
    }
    ASSERT_TRUE(world.RunUntil([&] {
      return job.rank(0).ended && job.rank(1).ended && job.rank(2).ended && job.rank(3).ended;
    }));
    for (int r = 0; r < 4; ++r) EXPECT_FALSE(job.rank(r).failed()) << job.rank(r).failure();
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 50'000), 0u);
    EXPECT_TRUE(world.RunUntil([&] {
      return world.host(0).daemon().communicators() + world.host(1).daemon().communicators() +
                 world.host(2).daemon().communicators() ==
             0;
    }));
  }
}

TEST(SimDestroy, AbortEndsAWaitingDestroy) {
  SimWorld world({.seed = 2, .network = {}});
  SimJob job(world, {0, 1}, 64 << 10);
  ASSERT_TRUE(job.Form());
  job.Post(0, OpKind::kAllReduce, 100);
  job.tenant(0).Destroy(job.rank(0));
  world.RunFor(20 * kNsPerMs);
  EXPECT_FALSE(job.rank(0).ended);
  job.tenant(0).Abort(job.rank(0));
  EXPECT_TRUE(world.RunUntil([&] { return job.rank(0).ended; }));
}

// One process of the host waits in a call that the other one never posts.
TEST(SimDestroy, RankThatWaitsForADestroyedRankFails) {
  SimWorld world({.seed = 3, .hosts = 1, .network = {}});
  SimJob job(world, {0, 0}, 64 << 10);
  ASSERT_TRUE(job.Form());
  job.Post(0, OpKind::kAllReduce, 100);
  world.RunFor(kNsPerMs);
  job.tenant(1).Destroy(job.rank(1));
  world.RunFor(29 * kNsPerSec);
  EXPECT_FALSE(job.rank(0).failed()) << "its own watchdog must fire first, as with NCCL";
  ASSERT_TRUE(world.RunUntil([&] { return job.rank(0).failed(); }, 2 * kNsPerSec));
  EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("rank 1 was destroyed"));
}

// Ranks that post nothing after the departure are not affected.
TEST(SimDestroy, AffectsOnlyRanksThatPostMoreCalls) {
  for (const bool aborts : {false, true}) {
    for (const std::vector<int>& layout : {std::vector<int>{0, 0, 0}, {0, 1, 1}}) {
      SimWorld world({.seed = 4, .network = {}});
      SimJob job(world, layout, 64 << 10);
      ASSERT_TRUE(job.Form());
      job.PostAll(OpKind::kAllReduce, 100);
      ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
      if (aborts) {
        job.tenant(2).Abort(job.rank(2));
      } else {
        job.tenant(2).Destroy(job.rank(2));
      }
      ASSERT_TRUE(world.RunUntil([&] { return job.rank(2).ended; }));
      job.Post(0, OpKind::kAllReduce, 100);
      world.RunFor(20 * kNsPerSec);
      EXPECT_FALSE(job.rank(1).failed());
      job.tenant(1).Destroy(job.rank(1));
      EXPECT_TRUE(world.RunUntil([&] { return job.rank(1).ended; }, kNsPerSec));
      job.tenant(0).Abort(job.rank(0));
      EXPECT_TRUE(world.RunUntil([&] { return job.rank(0).ended; }, kNsPerSec));
    }
  }
}

TEST(SimFailure, DaemonReleasesStateOfDeadProcesses) {
  SimWorld world({.seed = 8, .network = {}});
  SimJob job(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  job.tenant(0).Kill();
  job.tenant(1).Kill();
  ASSERT_TRUE(world.RunUntil([&] {
    return world.host(0).daemon().communicators() == 0 &&
           world.host(1).daemon().communicators() == 0 && world.host(0).daemon().sessions() == 0 &&
           world.host(1).daemon().sessions() == 0;
  }));
}

TEST(SimInit, LogsTheMissingRankAfterFiveSeconds) {
  SimWorld world({.seed = 9, .network = {}});
  SimTenant& first = world.AddTenant(0);
  first.RequestUniqueId();
  ASSERT_TRUE(world.RunUntil([&] { return first.has_unique_id(); }));
  SimRank& rank = first.Init(first.unique_id(), 3, 0);
  SimTenant& second = world.AddTenant(1);
  second.Init(first.unique_id(), 3, 2);
  world.RunFor(5500 * kNsPerMs);
  EXPECT_FALSE(rank.answered);
  EXPECT_TRUE(world.host(0).log().Contains("rank 1 has not joined"));
  EXPECT_TRUE(world.host(1).log().Contains("rank 1 has not joined"));
}

TEST(SimInit, RejectsBothProcessesThatClaimOneRank) {
  SimWorld world({.seed = 10, .network = {}});
  SimTenant& first = world.AddTenant(0);
  first.RequestUniqueId();
  ASSERT_TRUE(world.RunUntil([&] { return first.has_unique_id(); }));
  SimRank& a = first.Init(first.unique_id(), 2, 0);
  SimRank& b = world.AddTenant(1).Init(first.unique_id(), 2, 0);
  ASSERT_TRUE(world.RunUntil([&] { return a.answered && b.answered; }));
  for (SimRank* rank : {&a, &b}) {
    EXPECT_NE(rank->status.error, wire::ErrorClass::kNone);
    EXPECT_THAT(rank->status.text, testing::HasSubstr("two processes claim rank 0"));
  }
}

TEST(SimInit, RejectsAnotherTenant) {
  SimWorld world({.seed = 11, .network = {}});
  SimTenant& first = world.AddTenant(0, "blue");
  first.RequestUniqueId();
  ASSERT_TRUE(world.RunUntil([&] { return first.has_unique_id(); }));
  SimRank& a = first.Init(first.unique_id(), 2, 0);
  SimRank& b = world.AddTenant(1, "red").Init(first.unique_id(), 2, 1);
  ASSERT_TRUE(world.RunUntil([&] { return a.answered && b.answered; }));
  EXPECT_THAT(b.status.text, testing::HasSubstr("tenant"));
}

TEST(SimHostileRequests, BadMessageEndsOnlyItsSession) {
  SimWorld world({.seed = 12, .network = {}});
  SimJob job(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(job.Form());
  SimTenant& hostile = world.AddTenant(0);
  ASSERT_TRUE(world.RunUntil([&] { return hostile.connected(); }));
  hostile.SendRaw(std::vector<std::byte>(100, std::byte{0xab}));
  job.Fill(1000);
  job.PostAll(OpKind::kAllReduce, 1000);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
  EXPECT_TRUE(world.host(0).log().Contains("unexpected message"));
  EXPECT_EQ(world.host(0).daemon().sessions(), 1u);
}

TEST(SimHostileRequests, RecordOutsideItsBufferFailsOnlyItsCommunicator) {
  SimWorld world({.seed = 13, .network = {}});
  SimJob hostile(world, {0, 1}, 1 << 16);
  SimJob job(world, {0, 1}, 1 << 16);
  ASSERT_TRUE(hostile.Form());
  ASSERT_TRUE(job.Form());
  hostile.Post(0, OpKind::kAllReduce, (1 << 16) / sizeof(float) + 1);
  ASSERT_TRUE(world.RunUntil([&] { return hostile.rank(0).failed() && hostile.rank(1).failed(); }));
  EXPECT_THAT(hostile.rank(0).failure(), testing::HasSubstr("exceed buffer"));
  job.Fill(1000);
  job.PostAll(OpKind::kAllReduce, 1000);
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
}

}  // namespace collective_test
}  // namespace mccs
