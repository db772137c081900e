// Buffers that are released while the work that uses them is posted, is running, or cannot
// complete.
#include <gtest/gtest.h>

#include "tests/sim/scenario.h"

namespace mccs {
namespace release_test {

constexpr uint64_t kSeeds = 30;
constexpr uint64_t kCount = 40'000;

TEST(SimReleases, CompleteAfterAllPostedWork) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] =
        JobWorld({.seed = seed, .hosts = 3, .channels = 2}, {0, 1, 1, 2}, 256 << 10);
    job.Fill(kCount);
    constexpr int kCalls = 5;
    for (int r : {2, 0, 3, 1}) {
      for (int i = 0; i < kCalls; ++i) job.Post(r, OpKind::kAllReduce, kCount);
      world.RunFor(RandomUs(random, 2000));
      job.Release(r);
    }
    for (int r = 0; r < job.ranks(); ++r) {
      ASSERT_TRUE(world.RunUntil([&] { return job.IsReleased(r); })) << "rank " << r;
      EXPECT_EQ(job.rank(r).done(), static_cast<uint64_t>(kCalls)) << "rank " << r;
      EXPECT_FALSE(job.rank(r).failed()) << job.rank(r).failure();
    }
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kCount), 0u);
  }
}

TEST(SimReleases, OfMessagesCompleteAfterTheirGroup) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed}, {0, 1}, 256 << 10);
    job.Fill(kCount);
    job.Post(0, SimJob::Message{.sends = true, .peer = 1, .count = kCount});
    job.Release(0);
    world.RunFor(10 * kNsPerMs);
    EXPECT_FALSE(job.IsReleased(0)) << "released before the send completed";
    job.Post(1, SimJob::Message{.sends = false, .peer = 0, .count = kCount});
    ASSERT_TRUE(world.RunUntil([&] { return job.IsReleased(0) && job.Done(); }));
    for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(job.output(1, i), SimJob::InputValue(0, i));
  }
}

TEST(SimReleases, OfWorkThatFailsAreAnswered) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    auto [world, job] = JobWorld({.seed = seed, .hosts = 3}, {0, 1, 2}, 256 << 10);
    job.PostAll(OpKind::kAllReduce, kCount);
    for (int i = 0; i < 3; ++i) job.Post(0, OpKind::kAllReduce, kCount);
    job.Release(0);
    job.Release(1);
    world.RunFor(RandomUs(random, 500));
    job.tenant(2).Kill();
    ASSERT_TRUE(world.RunUntil([&] { return job.IsReleased(0) && job.IsReleased(1); }));
    EXPECT_TRUE(job.RunUntilFailed({0}));
  }
}

}  // namespace release_test
}  // namespace mccs
