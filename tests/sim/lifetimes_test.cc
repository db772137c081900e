// Communicators that form, fail, are aborted and are destroyed in every order, many at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace lifetimes_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 30;

size_t Communicators(SimWorld& world, int hosts) {
  size_t sum = 0;
  for (int h = 0; h < hosts; ++h) sum += world.host(h).daemon().communicators();
  return sum;
}

TEST(SimLifetimes, DestroyInAnyOrderWhileOthersWork) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SimWorld world({.seed = seed, .hosts = 3, .channels = 2, .network = {}});
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
      world.RunFor(static_cast<int64_t>(random() % 500) * kNsPerUs);
      leaving.tenant(r).Destroy(leaving.rank(r));
    }
    ASSERT_TRUE(world.RunUntil([&] { return leaving.Ended() && staying.Done(); }));
    for (int r = 0; r < 4; ++r) EXPECT_FALSE(leaving.rank(r).failed()) << leaving.rank(r).failure();
    EXPECT_EQ(leaving.Wrong(OpKind::kAllReduce, 1000), 0u);
    EXPECT_EQ(staying.Wrong(OpKind::kAllReduce, 60'000), 0u);
    EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 3) == 3; }, kNsPerSec));
  }
}

// The daemon finds both in one turn.
TEST(SimLifetimes, DestroyAfterABadRecordIsAnswered) {
  SimWorld world({.seed = 1, .hosts = 2, .network = {}});
  SimJob job(world, {0, 1}, 4096);
  ASSERT_TRUE(job.Form());
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  job.rank(0).region().records[0].send.offset = 2;  // between two elements: invalid
  for (int r = 0; r < 2; ++r) job.tenant(r).Destroy(job.rank(r));
  ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }));
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(job.rank(r).done(), 0u) << "only the shim releases streams; rank " << r;
  EXPECT_THAT(job.rank(0).failure(), testing::HasSubstr("offset 2"));
  EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 2) == 0; }, kNsPerSec));
}

// The abort overtakes the destroy, whose rank is already leaving.
TEST(SimLifetimes, AbortAfterDestroyInOneTurnIsAnswered) {
  SimWorld world({.seed = 1, .hosts = 1, .network = {}});
  SimJob job(world, std::vector<int>{0}, 4096);
  ASSERT_TRUE(job.Form());
  job.Fill(100);
  job.PostAll(OpKind::kAllReduce, 100);
  job.rank(0).region().records[0].send.offset = 2;  // fails the communicator
  job.tenant(0).Destroy(job.rank(0));
  job.tenant(0).Abort(job.rank(0));
  ASSERT_TRUE(world.RunUntil([&] { return job.Ended(); }, kNsPerSec));
  EXPECT_EQ(job.rank(0).done(), 0u) << "only the shim releases streams";
  EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 1) == 0; }, kNsPerSec));
}

// A broadcast's root completes long before a rank that has not posted it.
TEST(SimLifetimes, RankMayLeaveBeforeOthersFinishItsLastOperation) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimWorld world({.seed = seed, .hosts = 3, .network = {}});
    SimJob job(world, {0, 1, 2}, 64 << 10);
    ASSERT_TRUE(job.Form());
    job.Fill(2000);
    const int root = static_cast<int>(seed % 3);
    const int late = static_cast<int>((seed + 1) % 3);
    for (int r = 0; r < 3; ++r) {
      if (r != late) job.Post(r, OpKind::kBroadcast, 2000, root);
    }
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(root).done() == 1; }));
    job.tenant(root).Destroy(job.rank(root));
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(root).ended; }));
    world.RunFor(5 * kNsPerSec);  // far longer than the timeout of a broken lane
    job.Post(late, OpKind::kBroadcast, 2000, root);
    ASSERT_TRUE(world.RunUntil([&] { return job.Done(); })) << job.rank(late).failure();
    EXPECT_EQ(job.Wrong(OpKind::kBroadcast, 2000, root), 0u);
  }
}

TEST(SimLifetimes, AbortDuringInitEndsTheWaitOfAllRanks) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SimWorld world({.seed = seed, .hosts = 3, .network = {}});
    SimJob job(world, {0, 1, 2, 2}, 4096);
    ASSERT_TRUE(job.Begin(/*init_timeout_ms=*/2000));  // limit if a rank never joins
    world.RunFor(static_cast<int64_t>(random() % 1500) * kNsPerUs);
    const int quitter = static_cast<int>(random() % 4);
    job.tenant(quitter).Abort(job.rank(quitter));
    ASSERT_TRUE(world.RunUntil([&] { return job.rank(quitter).ended; }, kNsPerSec));
    ASSERT_TRUE(world.RunUntil(
        [&] {
          bool all = true;
          for (int r = 0; r < 4; ++r) all &= job.rank(r).answered;
          return all;
        },
        31 * kNsPerSec));  // timeout of a leader whose member ignores the roster
    for (int r = 0; r < 4; ++r) {
      if (r == quitter || job.rank(r).status.error != wire::ErrorClass::kNone) continue;
      job.tenant(r).Destroy(job.rank(r));  // it formed just before the abort
    }
    EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 3) == 0; }, 10 * kNsPerSec));
  }
}

TEST(SimLifetimes, InitTimesOutAndNamesTheMissingRanks) {
  SimWorld world({.seed = 1, .network = {}});
  SimTenant& tenant = world.AddTenant(0);
  tenant.RequestUniqueId();
  ASSERT_TRUE(world.RunUntil([&] { return tenant.has_unique_id(); }));
  SimRank& rank = tenant.Init(tenant.unique_id(), 40, 1, 1500);
  EXPECT_FALSE(world.RunUntil([&] { return rank.answered; }, 1400 * kNsPerMs));
  ASSERT_TRUE(world.RunUntil([&] { return rank.answered; }, 200 * kNsPerMs));
  EXPECT_EQ(rank.status.error, wire::ErrorClass::kRemote);
  EXPECT_THAT(rank.status.text, HasSubstr("1500 ms (MCCS_INIT_TIMEOUT)"));
  EXPECT_THAT(rank.status.text, HasSubstr("ranks 0, 2, 3"));
  EXPECT_THAT(rank.status.text, HasSubstr("and 23 more have not joined"));
  EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 2) == 0; }, kNsPerSec));
}

// Rank 1 times out. Rank 0, which has no timeout, must learn which rank was missing, and not only
// that rank 1 left.
TEST(SimLifetimes, InitTimeoutIsReportedToTheOtherRanks) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimWorld world({.seed = seed, .network = {}});
    SimTenant& without_timeout = world.AddTenant(0);
    SimTenant& with_timeout = world.AddTenant(1);
    without_timeout.RequestUniqueId();
    ASSERT_TRUE(world.RunUntil([&] { return without_timeout.has_unique_id(); }));
    SimRank& waits = without_timeout.Init(without_timeout.unique_id(), 3, 0);
    SimRank& times_out = with_timeout.Init(without_timeout.unique_id(), 3, 1, 1000);
    ASSERT_TRUE(
        world.RunUntil([&] { return times_out.answered && waits.answered; }, 1100 * kNsPerMs));
    for (const SimRank* rank : {&waits, &times_out}) {
      EXPECT_THAT(rank->status.text, HasSubstr("rank 2 has not joined"));
    }
    EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 2) == 0; }, 10 * kNsPerMs));
  }
}

TEST(SimLifetimes, LeadersDaemonDies) {
  SimWorld world({.seed = 2, .hosts = 3, .network = {}});
  SimJob job(world, {0, 1, 2}, 256 << 10);
  ASSERT_TRUE(job.Form());
  job.PostAll(OpKind::kAllReduce, 60'000);
  world.RunFor(200 * kNsPerUs);
  world.host(0).Kill(world.network());
  ASSERT_TRUE(
      world.RunUntil([&] { return job.rank(1).failed() && job.rank(2).failed(); }, kNsPerSec));
  for (int r : {1, 2}) {
    EXPECT_THAT(job.rank(r).failure(), HasSubstr("host h0"));
    job.tenant(r).Kill();
  }
  EXPECT_TRUE(world.RunUntil([&] {
    return world.host(1).daemon().communicators() + world.host(2).daemon().communicators() == 0;
  }));
}

TEST(SimLifetimes, RendezvousDaemonDiesWhileForming) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimWorld world({.seed = seed, .hosts = 3, .network = {}});
    SimJob job(world, {0, 1, 2}, 4096);
    ASSERT_TRUE(job.Begin());
    world.RunFor(static_cast<int64_t>(seed) * 30 * kNsPerUs);
    world.host(0).Kill(world.network());
    ASSERT_TRUE(world.RunUntil(
        [&] {
          return (job.rank(1).answered || job.rank(1).failed()) &&
                 (job.rank(2).answered || job.rank(2).failed());
        },
        60 * kNsPerSec));
  }
}

TEST(SimLifetimes, APartitionWhileFormingHeals) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SimWorld world({.seed = seed, .hosts = 3, .channels = 2, .network = {}});
    SimJob job(world, {0, 1, 2}, 64 << 10);
    ASSERT_TRUE(job.Begin());
    world.RunFor(static_cast<int64_t>(random() % 1200) * kNsPerUs);
    const int a = static_cast<int>(random() % 3), b = (a + 1) % 3;
    world.network().Partition(world.host(a).address(), world.host(b).address());
    world.RunFor(3 * kNsPerSec);
    world.network().Heal(world.host(a).address(), world.host(b).address());
    ASSERT_TRUE(world.RunUntil([&] { return job.Formed(); }, 60 * kNsPerSec))
        << job.rank(0).status.text;
    job.Fill(1000);
    job.PostAll(OpKind::kAllReduce, 1000);
    ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
  }
}

TEST(SimLifetimes, TwoCommunicatorsWithOppositePostingOrders) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimWorld world({.seed = seed, .network = {}});
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
  SimWorld world({.seed = 9, .network = {}});
  std::vector<std::unique_ptr<SimJob>> jobs;
  for (int i = 0; i < 200; ++i)
    jobs.push_back(std::make_unique<SimJob>(world, std::vector<int>{0, 1}, 4096));
  for (auto& job : jobs) ASSERT_TRUE(job->Begin());
  auto all = [&](auto holds) { return std::all_of(jobs.begin(), jobs.end(), holds); };
  ASSERT_TRUE(world.RunUntil([&] { return all([](const auto& job) { return job->Formed(); }); }));
  EXPECT_EQ(Communicators(world, 2), 400u);
  for (auto& job : jobs) {
    job->Fill(500);
    job->PostAll(OpKind::kAllReduce, 500);
  }
  ASSERT_TRUE(world.RunUntil([&] { return all([](const auto& job) { return job->Done(); }); }));
  for (auto& job : jobs) {
    EXPECT_EQ(job->Wrong(OpKind::kAllReduce, 500), 0u);
    for (int r = 0; r < 2; ++r) job->tenant(r).Destroy(job->rank(r));
  }
  EXPECT_TRUE(world.RunUntil([&] { return Communicators(world, 2) == 0; }));
}

}  // namespace lifetimes_test
}  // namespace mccs
