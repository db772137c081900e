#include "service/pacing/token_bucket.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>

namespace mccs {
namespace token_bucket_test {

constexpr MonotonicNs kStart = 5 * kNsPerSec;
constexpr uint64_t kMega = 1'000'000;

// Takes all allowances, at the bucket's deadlines; returns the bytes until `end`.
uint64_t TakeAll(TokenBucket& bucket, MonotonicNs* now, MonotonicNs end) {
  uint64_t taken = 0;
  while (*now < end) {
    if (const uint64_t allowed = bucket.Allowance(*now); allowed > 0) {
      bucket.Take(allowed, *now);
      taken += allowed;
    }
    *now = std::max(*now + 1, bucket.AvailableAt(*now));
  }
  return taken;
}

TEST(TokenBucket, WithoutARateThereIsNoLimit) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.Allowance(kStart), TokenBucket::kNoLimit);
  bucket.Take(1 << 30, kStart);
  EXPECT_EQ(bucket.Allowance(kStart), TokenBucket::kNoLimit);
  EXPECT_LE(bucket.AvailableAt(kStart), kStart);
}

TEST(TokenBucket, ARateHoldsWithinThreePercentOfEachSecond) {
  for (const uint64_t rate : {kMega, 100 * kMega, 7'777'777ul, 10'000 * kMega, 400'000 * kMega}) {
    TokenBucket bucket;
    bucket.SetRate(rate, kStart);
    MonotonicNs now = kStart;
    for (int second = 1; second <= 5; ++second) {
      const uint64_t taken = TakeAll(bucket, &now, kStart + second * kNsPerSec);
      EXPECT_NEAR(static_cast<double>(taken), static_cast<double>(rate) / 8,
                  0.01 * static_cast<double>(rate) / 8)
          << rate;
    }
  }
}

TEST(TokenBucket, LimitsFromTheFirstByteAlsoWhenIdleBefore) {
  constexpr uint64_t kRate = 100 * kMega;
  TokenBucket bucket;
  bucket.SetRate(kRate, kStart);
  MonotonicNs now = kStart + 60 * kNsPerSec;  // the tokens are limited to the burst
  EXPECT_LE(TakeAll(bucket, &now, now + kNsPerSec), kRate / 8 * 1.03);
  now += 60 * kNsPerSec;
  EXPECT_LE(TakeAll(bucket, &now, now + kNsPerSec), kRate / 8 * 1.03);
}

TEST(TokenBucket, IsSmoothOverAHundredMilliseconds) {
  constexpr uint64_t kRate = 100 * kMega;
  TokenBucket bucket;
  bucket.SetRate(kRate, kStart);
  MonotonicNs now = kStart;
  TakeAll(bucket, &now, kStart + kNsPerSec);
  for (int i = 0; i < 20; ++i) {
    const auto taken = static_cast<double>(TakeAll(bucket, &now, now + 100 * kNsPerMs));
    EXPECT_NEAR(taken, kRate / 80.0, 0.03 * kRate / 80.0);
  }
}

// An engine that is late, or has little to send, neither loses nor gains.
TEST(TokenBucket, NeverAllowsMoreThanTheRate) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    const uint64_t rate = kMega + random() % (10'000 * kMega);
    TokenBucket bucket;
    bucket.SetRate(rate, kStart);
    MonotonicNs now = kStart;
    std::deque<std::pair<MonotonicNs, uint64_t>> last;  // of one second
    uint64_t in_last = 0;
    for (int i = 0; i < 3000; ++i) {
      now += 1 + static_cast<int64_t>(random() % (10 * kNsPerMs));
      const uint64_t allowed = bucket.Allowance(now);
      if (allowed == 0) continue;
      const uint64_t take = random() % 4 == 0 ? 1 + random() % allowed : allowed;
      bucket.Take(take, now);
      last.emplace_back(now, take);
      in_last += take;
      while (last.front().first <= now - kNsPerSec) {
        in_last -= last.front().second;
        last.pop_front();
      }
      ASSERT_LE(in_last, static_cast<double>(rate) / 8 * 1.03 + 1);
    }
  }
}

TEST(TokenBucket, IsAvailableAtItsDeadline) {
  TokenBucket bucket;
  bucket.SetRate(80 * kMega, kStart);
  EXPECT_EQ(bucket.Allowance(kStart), 0u);
  const MonotonicNs opens = bucket.AvailableAt(kStart);
  EXPECT_EQ(bucket.Allowance(opens - 1), 0u);
  EXPECT_EQ(bucket.Allowance(opens), bucket.Quantum());
  EXPECT_EQ(bucket.Quantum(), 20'000u) << "2 ms";
}

TEST(TokenBucket, FillsADeficitWithinItsLimit) {
  TokenBucket bucket;
  bucket.SetRate(8 * kMega, kStart);
  bucket.Take(1'000'000, kStart);  // one second's worth
  EXPECT_EQ(bucket.AvailableAt(kStart), kStart + kNsPerSec + TokenBucket::kQuantumNs);
  bucket.SetRate(8, kStart);
  bucket.Take(std::numeric_limits<uint64_t>::max(), kStart);
  EXPECT_LE(bucket.AvailableAt(kStart),
            kStart + TokenBucket::kMaxDeficitNs + TokenBucket::kQuantumNs);
  EXPECT_EQ(bucket.Allowance(kStart + 2 * TokenBucket::kMaxDeficitNs), 1u) << "8 bit/s";
}

TEST(TokenBucket, AnotherRateActsAtOnce) {
  TokenBucket bucket;
  bucket.SetRate(8'000, kStart);
  bucket.Take(1'000'000, kStart);
  MonotonicNs now = kStart;
  bucket.SetRate(800 * kMega, now);
  EXPECT_LE(bucket.AvailableAt(now), now + TokenBucket::kBurstNs + TokenBucket::kQuantumNs);
  TakeAll(bucket, &now, now + kNsPerSec);
  bucket.SetRate(8 * kMega, now);
  EXPECT_LE(TakeAll(bucket, &now, now + kNsPerSec), 1.03 * kMega);
  bucket.SetRate(0, now);
  EXPECT_EQ(bucket.Allowance(now), TokenBucket::kNoLimit);
}

TEST(TokenBucket, AcceptsAnyRate) {
  for (const uint64_t rate : {uint64_t{1}, std::numeric_limits<uint64_t>::max()}) {
    TokenBucket bucket;
    bucket.SetRate(rate, kStart);
    MonotonicNs now = kStart + kNsPerSec;
    EXPECT_GT(bucket.Allowance(now), 0u);
    EXPECT_LE(bucket.Allowance(now), TokenBucket::kMaxRateBps / 8);
    for (int i = 0; i < 200; ++i) bucket.Take(bucket.Allowance(now), now);
    EXPECT_EQ(bucket.Allowance(now), 0u);
  }
}

// ---- A bucket shared by several lanes -----------------------------------------------------------

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

class LimitedSharedBucket : public testing::Test {
 protected:
  LimitedSharedBucket() { bucket_.SetRate(kRate, 1, kStart); }
  SharedBucket bucket_;
  Lanes lanes_;
};

TEST_F(LimitedSharedBucket, OneLaneGetsTheWholeRate) {
  lanes_.RunFor(bucket_, 1, kNsPerSec);
  EXPECT_NEAR(static_cast<double>(lanes_.sent[0]), 10e6, 0.03 * 10e6);
}

TEST_F(LimitedSharedBucket, SeveralGetEqualParts) {
  lanes_.RunFor(bucket_, 4, kNsPerSec);
  for (const uint64_t sent : lanes_.sent) {
    EXPECT_NEAR(static_cast<double>(sent), 2.5e6, 0.03 * 2.5e6);
  }
}

TEST_F(LimitedSharedBucket, AnIdleLaneDoesNotBlockOthers) {
  lanes_.RunFor(bucket_, 4, kNsPerSec);
  lanes_.sent = {};
  lanes_.RunFor(bucket_, 2, kNsPerSec);  // the others do not call and do not leave the queue
  EXPECT_NEAR(static_cast<double>(lanes_.sent[0] + lanes_.sent[1]), 10e6, 0.03 * 10e6);
  EXPECT_NEAR(static_cast<double>(lanes_.sent[0]), 5e6, 0.03 * 5e6);
}

TEST_F(LimitedSharedBucket, ALeavingLaneUnblocksTheNext) {
  int a = 0, b = 0;
  EXPECT_EQ(bucket_.Allowance(&a, kStart), 0u);
  EXPECT_EQ(bucket_.Allowance(&b, kStart), 0u);
  const MonotonicNs open = bucket_.AvailableAt(&a, kStart);
  EXPECT_GT(open, kStart);
  EXPECT_EQ(bucket_.Allowance(&b, open), 0u) << "the other one is first";
  EXPECT_GT(bucket_.AvailableAt(&b, open), open);
  bucket_.LeaveQueue(&a);
  EXPECT_GT(bucket_.Allowance(&b, open), 0u);
}

}  // namespace token_bucket_test
}  // namespace mccs
