// Operations of a communicator that overlap: small ones wait for the network together, and those
// that use each other's memory do not.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace overlap_test {

constexpr int64_t kDelayNs = 20 * kNsPerUs;  // of every byte between hosts
constexpr uint64_t kCount = 2;
constexpr int kCalls = 16;

class Overlap : public testing::Test {
 protected:
  Overlap()
      : world_({.hosts = 3, .network = {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs}}),
        job_(world_, {0, 0, 1, 2}, kCalls * kCount * sizeof(float)) {}

  // The simulated time until all posted calls are complete.
  int64_t TimeToComplete() {
    const MonotonicNs before = world_.clock().Now();
    EXPECT_TRUE(job_.Complete());
    return world_.clock().Now() - before;
  }

  SimWorld world_;
  SimJob job_;
};

TEST_F(Overlap, SmallCallsOnDifferentMemoryWaitTogether) {
  ASSERT_TRUE(job_.Form());
  for (const bool together : {true, false}) {
    job_.Fill(kCalls * kCount);
    int64_t time = 0;
    const auto post = [&](int i) {
      for (int r = 0; r < job_.ranks(); ++r)
        job_.PostInPlace(r, kCount, static_cast<uint64_t>(i) * kCount);
    };
    post(0);
    const int64_t one = TimeToComplete();
    for (int i = 1; i < kCalls; ++i) {
      post(i);
      if (!together) time += TimeToComplete();
    }
    if (together) time = TimeToComplete();
    EXPECT_EQ(job_.Wrong(OpKind::kAllReduce, kCalls * kCount), 0u);
    if (together) {
      EXPECT_LE(time, 4 * one) << "with as many slots as the lanes have, the calls share few waits";
    } else {
      EXPECT_GE(time, (kCalls - 1) * one / 2);
    }
  }
}

// Each call reads the result of the one before.
TEST_F(Overlap, CallsOnTheSameMemoryRunOneAfterTheOther) {
  ASSERT_TRUE(job_.Form());
  job_.Fill(kCount);
  for (int i = 0; i < 3; ++i) {
    for (int r = 0; r < job_.ranks(); ++r) job_.PostInPlace(r, kCount, 0);
  }
  ASSERT_TRUE(job_.Complete());
  for (uint64_t i = 0; i < kCount; ++i) {
    float sum = 0;
    for (int r = 0; r < job_.ranks(); ++r) sum += SimJob::InputValue(r, i);
    for (int r = 0; r < job_.ranks(); ++r) {
      EXPECT_EQ(job_.output(r, i), sum * 4 * 4) << "rank " << r << ", element " << i;
    }
  }
}

}  // namespace overlap_test
}  // namespace mccs
