#include <gtest/gtest.h>

#include <array>

#include "service/pacing/token_bucket.h"

namespace mccs {
namespace shared_bucket_test {

constexpr MonotonicNs kStart = 5 * kNsPerSec;
constexpr uint64_t kRate = 80'000'000;  // 10 MB/s

// Lanes that always have data, called in the same order each time.
class Lanes {
 public:
  void RunFor(SharedBucket& bucket, int lanes, int64_t ns) {
    for (const MonotonicNs end = now + ns; now < end; now += 100 * kNsPerUs) {
      for (size_t i = 0; i < static_cast<size_t>(lanes); ++i) {
        const uint64_t allowed = bucket.Allowance(&sent[i], now);
        if (allowed == 0) continue;
        bucket.Take(&sent[i], allowed, now);
        sent[i] += allowed;
      }
    }
  }
  MonotonicNs now = kStart;
  std::array<uint64_t, 4> sent{};
};

TEST(SharedBucket, WithoutARateNoLaneWaits) {
  SharedBucket bucket;
  int a = 0, b = 0;
  EXPECT_EQ(bucket.Allowance(&a, kStart), TokenBucket::kNoLimit);
  bucket.Take(&a, 1 << 30, kStart);
  EXPECT_EQ(bucket.Allowance(&b, kStart), TokenBucket::kNoLimit);
}

TEST(SharedBucket, TheHighestRevisionCounts) {
  SharedBucket bucket;
  bucket.SetRate(kRate, 7, kStart);
  bucket.SetRate(2 * kRate, 6, kStart);
  EXPECT_EQ(bucket.rate_bps(), kRate);
  bucket.SetRate(0, 8, kStart);
  EXPECT_EQ(bucket.rate_bps(), 0u);
}

TEST(SharedBucket, OneLaneGetsTheWholeRate) {
  SharedBucket bucket;
  bucket.SetRate(kRate, 1, kStart);
  Lanes lanes;
  lanes.RunFor(bucket, 1, kNsPerSec);
  EXPECT_NEAR(static_cast<double>(lanes.sent[0]), 10e6, 0.03 * 10e6);
}

TEST(SharedBucket, SeveralGetEqualParts) {
  SharedBucket bucket;
  bucket.SetRate(kRate, 1, kStart);
  Lanes lanes;
  lanes.RunFor(bucket, 4, kNsPerSec);
  for (const uint64_t sent : lanes.sent) {
    EXPECT_NEAR(static_cast<double>(sent), 2.5e6, 0.03 * 2.5e6);
  }
}

TEST(SharedBucket, AnIdleLaneDoesNotBlockOthers) {
  SharedBucket bucket;
  bucket.SetRate(kRate, 1, kStart);
  Lanes lanes;
  lanes.RunFor(bucket, 4, kNsPerSec);
  lanes.sent = {};
  lanes.RunFor(bucket, 2, kNsPerSec);  // the others do not call and do not leave the queue
  EXPECT_NEAR(static_cast<double>(lanes.sent[0] + lanes.sent[1]), 10e6, 0.03 * 10e6);
  EXPECT_NEAR(static_cast<double>(lanes.sent[0]), 5e6, 0.03 * 5e6);
}

TEST(SharedBucket, ALeavingLaneUnblocksTheNext) {
  SharedBucket bucket;
  bucket.SetRate(kRate, 1, kStart);
  int a = 0, b = 0;
  EXPECT_EQ(bucket.Allowance(&a, kStart), 0u);
  EXPECT_EQ(bucket.Allowance(&b, kStart), 0u);
  const MonotonicNs open = bucket.OpensAt(&a, kStart);
  EXPECT_GT(open, kStart);
  EXPECT_EQ(bucket.Allowance(&b, open), 0u) << "the other one is first";
  EXPECT_GT(bucket.OpensAt(&b, open), open);
  bucket.LeaveQueue(&a);
  EXPECT_GT(bucket.Allowance(&b, open), 0u);
}

}  // namespace shared_bucket_test
}  // namespace mccs
