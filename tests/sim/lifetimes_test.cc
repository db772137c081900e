// Communicators that form, fail, are aborted and are destroyed in every order, many at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace lifetimes_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 30;

TEST(SimLifetimes, DestroyInAnyOrderWhileOthersWork) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorld world({.seed = seed, .hosts = 3, .channels = 2});
    SimJob leaving(world, {0, 1, 1, 2}, 256 << 10);
    SimJob staying(world, {2, 1, 0, 0}, 256 << 10);
    ASSERT_TRUE(leaving.Form());
    ASSERT_TRUE(staying.Form());
    staying.Fill(60'000);
    leaving.Fill(1000);
    leaving.PostAll(OpKind::kAllReduce, 1000);
    for (int i = 0; i < 20; ++i) staying.PostAll(OpKind::kAllReduce, 60'000);
    std::vector<int> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    for (int r : order) {
      world.RunFor(RandomUs(random, 500));
      leaving.Destroy(r);
    }
    ASSERT_TRUE(world.RunUntil([&] { return leaving.Ended() && staying.Done(); }));
    for (int r = 0; r < 4; ++r) EXPECT_FALSE(leaving.rank(r).failed()) << leaving.rank(r).failure();
    EXPECT_EQ(leaving.Wrong(OpKind::kAllReduce, 1000), 0u);
    EXPECT_EQ(staying.Wrong(OpKind::kAllReduce, 60'000), 0u);
    EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 3; }, kNsPerSec));
  }
}

// The daemon finds both in one turn.
TEST(SimLifetimes, DestroyAfterABadRecordIsAnswered) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2}, {0, 1}, 4096);
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  job.rank(0).region().records[0].send.offset = 2;  // between two elements: invalid
  for (int r = 0; r < 2; ++r) job.Destroy(r);
  ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }));
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(job.rank(r).done(), 0u) << "only the shim releases streams; rank " << r;
  EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("offset 2"));
  EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }, kNsPerSec));
}

// The abort overtakes the destroy, whose rank is already leaving.
TEST(SimLifetimes, AbortAfterDestroyInOneTurnIsAnswered) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, std::vector<int>{0}, 4096);
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  job.rank(0).region().records[0].send.offset = 2;  // fails the communicator
  job.Destroy(0);
  job.Abort(0);
  ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }, kNsPerSec));
  EXPECT_EQ(job.rank(0).done(), 0u) << "only the shim releases streams";
  EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }, kNsPerSec));
}

// A broadcast's root completes long before a rank that has not posted it.
TEST(SimLifetimes, RankMayLeaveBeforeOthersFinishItsLastOperation) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 2}, 64 << 10);
    job.Fill(2000);
    const int root = static_cast<int>(seed % 3);
    const int late = static_cast<int>((seed + 1) % 3);
    for (int r = 0; r < 3; ++r) {
      if (r != late) job.Post(r, OpKind::kBroadcast, 2000, root);
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(root).done() == 1; }));
    job.Destroy(root);
    ASSERT_TRUE(job.RunUntilEnded(root));
    world.RunFor(5 * kNsPerSec);  // far longer than the timeout of a broken lane
    job.Post(late, OpKind::kBroadcast, 2000, root);
    ASSERT_TRUE(job.Complete()) << job.rank(late).failure();
    EXPECT_EQ(job.Wrong(OpKind::kBroadcast, 2000, root), 0u);
  }
}

TEST(SimLifetimes, AbortDuringInitEndsTheWaitOfAllRanks) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorld world({.seed = seed, .hosts = 3});
    SimJob job(world, {0, 1, 2, 2}, 4096);
    ASSERT_TRUE(job.Begin(/*init_timeout_ms=*/2000));  // limit if a rank never joins
    world.RunFor(RandomUs(random, 1500));
    const int quitter = static_cast<int>(random() % 4);
    job.Abort(quitter);
    ASSERT_TRUE(job.RunUntilEnded(quitter, kNsPerSec));
    ASSERT_TRUE(world.RunUntil(
        [&] {
          bool all = true;
          for (int r = 0; r < 4; ++r) all &= job.rank(r).answered;
          return all;
        },
        31 * kNsPerSec));  // timeout of a leader whose member ignores the roster
    for (int r = 0; r < 4; ++r) {
      if (r == quitter || job.rank(r).status.error != wire::ErrorClass::kNone) continue;
      job.Destroy(r);  // it formed just before the abort
    }
    EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }, 10 * kNsPerSec));
  }
}

TEST(SimLifetimes, InitTimesOutAndNamesTheMissingRanks) {
  SimWorld world({.seed = 1});
  SimTenant& tenant = world.AddTenant(0);
  ASSERT_TRUE(world.GetUniqueId(tenant));
  SimRank& rank = tenant.Init(tenant.unique_id(), 40, 1, 1500);
  EXPECT_FALSE(world.RunUntil([&] { return rank.answered; }, 1400 * kNsPerMs));
  ASSERT_TRUE(world.RunUntil([&] { return rank.answered; }, 200 * kNsPerMs));
  EXPECT_EQ(rank.status.error, wire::ErrorClass::kRemote);
  EXPECT_THAT(rank.status.text, HasSubstr("1500 ms (MCCS_INIT_TIMEOUT)"));
  EXPECT_THAT(rank.status.text, HasSubstr("ranks 0, 2, 3"));
  EXPECT_THAT(rank.status.text, HasSubstr("and 23 more have not joined"));
  EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }, kNsPerSec));
}

// Rank 1 times out. Rank 0, which has no timeout, must learn which rank was missing, and not only
// that rank 1 left.
TEST(SimLifetimes, InitTimeoutIsReportedToTheOtherRanks) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorld world({.seed = seed});
    SimTenant& without_timeout = world.AddTenant(0);
    SimTenant& with_timeout = world.AddTenant(1);
    ASSERT_TRUE(world.GetUniqueId(without_timeout));
    SimRank& waits = without_timeout.Init(without_timeout.unique_id(), 3, 0);
    SimRank& times_out = with_timeout.Init(without_timeout.unique_id(), 3, 1, 1000);
    ASSERT_TRUE(
        world.RunUntil([&] { return times_out.answered && waits.answered; }, 1100 * kNsPerMs));
    for (const SimRank* rank : {&waits, &times_out}) {
      EXPECT_THAT(rank->status.text, HasSubstr("rank 2 has not joined"));
    }
    EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }, 10 * kNsPerMs));
  }
}

TEST(SimLifetimes, LeadersDaemonDies) {
  auto [world, job] = JobWorld({.seed = 2, .hosts = 3}, {0, 1, 2}, 256 << 10);
  job.PostAll(OpKind::kAllReduce, 60'000);
  world.RunFor(200 * kNsPerUs);
  world.Kill(0);
  ASSERT_TRUE(job.RunUntilFailed({1, 2}, kNsPerSec));
  for (int r : {1, 2}) {
    EXPECT_THAT(job.rank(r).failure(), HasSubstr("host h0"));
    job.tenant(r).Kill();
  }
  EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }));
}

TEST(SimLifetimes, RendezvousDaemonDiesWhileForming) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorld world({.seed = seed, .hosts = 3});
    SimJob job(world, {0, 1, 2}, 4096);
    ASSERT_TRUE(job.Begin());
    world.RunFor(static_cast<int64_t>(seed) * 30 * kNsPerUs);
    world.Kill(0);
    ASSERT_TRUE(world.RunUntil(
        [&] {
          return (job.rank(1).answered || job.rank(1).failed()) &&
                 (job.rank(2).answered || job.rank(2).failed());
        },
        60 * kNsPerSec));
  }
}

// A request of RDMA in flight ends with an error, long before the partition does; TCP sends again.
TEST(SimLifetimes, APartitionWhileFormingHeals) {
  const bool over_verbs = std::getenv("MCCS_SIM_TRANSPORT") != nullptr;
  int healed = 0;
  for (auto [seed, random] : Seeds(kSeeds)) {
    const SimWorldOptions options{.seed = seed, .hosts = 3, .channels = 2};
    int64_t forming_ns = 0;
    {
      SimWorld world(options);
      SimJob job(world, {0, 1, 2}, 64 << 10);
      const MonotonicNs began = world.clock().Now();
      ASSERT_TRUE(job.Form());
      forming_ns = world.clock().Now() - began;
    }
    SimWorld world(options);
    SimJob job(world, {0, 1, 2}, 64 << 10);
    ASSERT_TRUE(job.Begin());
    world.RunFor(static_cast<int64_t>(random() % static_cast<uint64_t>(forming_ns)));
    const int a = static_cast<int>(random() % 3), b = (a + 1) % 3;
    world.network().Partition(world.host(a).address(), world.host(b).address());
    world.RunFor(3 * kNsPerSec);
    world.network().Heal(world.host(a).address(), world.host(b).address());
    const bool formed = world.RunUntil([&] { return job.Formed(); }, 60 * kNsPerSec);
    std::string wrong;
    for (int r = 0; r < 3 && !formed; ++r) absl::StrAppend(&wrong, job.rank(r).status.text, "; ");
    if (formed) wrong = job.Run(OpKind::kAllReduce, 1000);
    healed += formed && wrong.empty() ? 1 : 0;
    if (over_verbs && !wrong.empty()) {
      EXPECT_THAT(wrong, HasSubstr("transport retry counter exceeded"));
    } else {
      EXPECT_TRUE(formed);
      EXPECT_EQ(wrong, "");
    }
  }
  EXPECT_GE(healed, static_cast<int>(Seeds(kSeeds).size() / 2));
}

TEST(SimLifetimes, TwoCommunicatorsWithOppositePostingOrders) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    SimWorld world({.seed = seed});
    SimJob a(world, {0, 1}, 256 << 10), b(world, {0, 1}, 256 << 10);
    ASSERT_TRUE(a.Form());
    ASSERT_TRUE(b.Form());
    a.Fill(50'000);
    b.Fill(50'000);
    for (int i = 0; i < 5; ++i) {
      a.Post(0, OpKind::kAllReduce, 50'000);
      b.Post(1, OpKind::kAllReduce, 50'000);
      world.RunFor(300 * kNsPerUs);
      b.Post(0, OpKind::kAllReduce, 50'000);
      a.Post(1, OpKind::kAllReduce, 50'000);
    }
    ASSERT_TRUE(world.RunUntil([&] { return a.Done() && b.Done(); }));
    EXPECT_EQ(a.Wrong(OpKind::kAllReduce, 50'000), 0u);
    EXPECT_EQ(b.Wrong(OpKind::kAllReduce, 50'000), 0u);
  }
}

TEST(SimLifetimes, HundredsOfCommunicators) {
  SimWorld world({.seed = 9});
  std::vector<std::unique_ptr<SimJob>> jobs;
  for (int i = 0; i < 200; ++i)
    jobs.push_back(std::make_unique<SimJob>(world, std::vector<int>{0, 1}, 4096));
  for (auto& job : jobs) ASSERT_TRUE(job->Begin());
  auto all = [&](auto holds) { return std::ranges::all_of(jobs, holds); };
  ASSERT_TRUE(world.RunUntil([&] { return all([](const auto& job) { return job->Formed(); }); }));
  EXPECT_EQ(world.communicators(), 400u);
  for (auto& job : jobs) {
    job->Fill(500);
    job->PostAll(OpKind::kAllReduce, 500);
  }
  ASSERT_TRUE(world.RunUntil([&] { return all([](const auto& job) { return job->Done(); }); }));
  for (auto& job : jobs) {
    EXPECT_EQ(job->Wrong(OpKind::kAllReduce, 500), 0u);
    for (int r = 0; r < 2; ++r) job->tenant(r).Destroy(job->rank(r));
  }
  EXPECT_TRUE(world.RunUntil([&] { return world.communicators() == 0; }));
}

}  // namespace lifetimes_test
}  // namespace mccs
