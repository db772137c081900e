#include "service/communicator/lanes/lane_meter.h"

#include <gtest/gtest.h>

namespace mccs {
namespace lane_meter_test {

constexpr uint32_t kSlotBytes = 100'000;

TEST(RecentMinimum, UnknownBelowMinimumSamples) {
  RecentMinimum least(3);
  least.Record(5, 1);
  least.Record(4, 2);
  EXPECT_EQ(least.value(), 0);
  least.Record(6, 3);
  EXPECT_EQ(least.value(), 4);
}

TEST(RecentMinimum, DropsOldPeriods) {
  RecentMinimum least(2);
  MonotonicNs now = 1;
  for (const double value : {1, 1}) least.Record(value, now);
  now += RecentMinimum::kPeriodNs;
  least.Record(7, now);
  EXPECT_EQ(least.value(), 1) << "one value of the new period is not enough";
  least.Record(8, now);
  EXPECT_EQ(least.value(), 1) << "the period before counts";
  now += RecentMinimum::kPeriodNs;
  for (const double value : {9, 9}) least.Record(value, now);
  EXPECT_EQ(least.value(), 7);
}

// A lane as its meter sees it.
struct Lane {
  explicit Lane(RateMeter* rate = nullptr) : meter(rate) {}

  void Post(int slices, MonotonicNs now) {
    next += static_cast<SliceNumber>(slices);
    meter.Update(next, acknowledged, now);
  }
  void Acknowledge(int slices, uint64_t bytes_each, MonotonicNs now) {
    acknowledged.slices += static_cast<uint64_t>(slices);
    acknowledged.payload_bytes += static_cast<uint64_t>(slices) * bytes_each;
    meter.Update(next, acknowledged, now);
  }
  // Round trips of single slices of `bytes`, kMinSamples of them, `took` ns each.
  void Return(uint64_t bytes, int64_t took, MonotonicNs* now) {
    for (int i = 0; i < LaneMeter::kMinSamples; ++i) {
      Post(1, *now);
      *now += took;
      Acknowledge(1, bytes, *now);
      *now += kNsPerMs;
    }
  }

  LaneMeter meter;
  SliceNumber next = 0;
  LaneCounters acknowledged;
};

TEST(LaneMeter, MeasuresMinimumRoundTrip) {
  Lane lane;
  MonotonicNs now = 1;
  lane.Return(8, 50'000, &now);
  EXPECT_EQ(lane.meter.round_trip_ns(), 50'000);
  lane.Return(8, 70'000, &now);
  EXPECT_EQ(lane.meter.round_trip_ns(), 50'000);
  lane.Return(8, 30'000, &now);
  EXPECT_EQ(lane.meter.round_trip_ns(), 30'000);
}

TEST(LaneMeter, IgnoresLargeSlices) {
  Lane lane;
  MonotonicNs now = 1;
  lane.Return(LaneMeter::kShortBytes + 1, 50'000, &now);
  EXPECT_EQ(lane.meter.round_trip_ns(), 0);
}

// A program of small calls posts the next one before the previous one is acknowledged.
TEST(LaneMeter, MeasuresSliceBehindShortOnes) {
  Lane lane;
  MonotonicNs now = 1;
  lane.Post(1, now);
  for (int i = 0; i < 4 * LaneMeter::kMinSamples; ++i) {
    lane.Post(1, now += 25'000);
    lane.Acknowledge(1, 8, now += 25'000);
  }
  EXPECT_EQ(lane.meter.round_trip_ns(), 50'000) << "of the first one; the others take longer";
}

// The receiver acknowledges four slices at a time, as soon as the last one has landed.
TEST(LaneMeter, MeasuresLastSliceOfDeferredAcknowledgement) {
  Lane lane;
  MonotonicNs now = 1;
  for (int i = 0; i < LaneMeter::kMinSamples; ++i) {
    for (int slice = 0; slice < 4; ++slice) lane.Post(1, now += 25'000);
    lane.Acknowledge(4, 8, now += 20'000);
  }
  EXPECT_EQ(lane.meter.round_trip_ns(), 20'000);
}

TEST(LaneMeter, IgnoresSliceBehindLargeOne) {
  Lane lane;
  MonotonicNs now = 1;
  lane.Post(1, now);
  for (int i = 0; i < 4 * LaneMeter::kMinSamples; ++i) {
    lane.Post(1, now += 10);
    lane.Acknowledge(1, i % 2 == 0 ? LaneMeter::kShortBytes : 8, now += 10);
  }
  EXPECT_EQ(lane.meter.round_trip_ns(), 0);
}

TEST(LaneMeter, IgnoresSlicesDelayedByRateLimit) {
  Lane lane;
  MonotonicNs now = 1;
  for (int i = 0; i < LaneMeter::kMinSamples; ++i) {
    lane.Post(1, now);
    lane.meter.Drop();
    lane.Acknowledge(1, 8, now += 10);
  }
  EXPECT_EQ(lane.meter.round_trip_ns(), 0);
}

TEST(LaneMeter, ResetsWithNewConnection) {
  Lane lane;
  MonotonicNs now = 1;
  lane.Return(8, 50'000, &now);
  lane.meter.Reset();
  EXPECT_EQ(lane.meter.round_trip_ns(), 0);
  lane.Return(8, 70'000, &now);
  EXPECT_EQ(lane.meter.round_trip_ns(), 70'000);
}

// With eight slices in flight at any time, and so many acknowledged at a time.
void Stream(Lane* lane, int slices, int at_once, uint64_t bytes_each, int64_t ns_each,
            MonotonicNs* now) {
  lane->Post(8, *now);
  for (int i = 0; i < slices; i += at_once) {
    *now += at_once * ns_each;
    lane->Post(at_once, *now);
    lane->Acknowledge(at_once, bytes_each, *now);
  }
  lane->Acknowledge(8, bytes_each, *now += 8 * ns_each);
}

TEST(RateMeter, MeasuresMaximumRateOfFullLane) {
  RateMeter rate(kSlotBytes);
  Lane lane(&rate);
  MonotonicNs now = 1;
  Stream(&lane, 500, 1, kSlotBytes, 100'000, &now);  // 8 Gbit/s
  EXPECT_LE(rate.rate_bps(), 8'000'000'000u);
  EXPECT_GE(rate.rate_bps(), 5'000'000'000u);
  Stream(&lane, 500, 1, kSlotBytes, 200'000, &now);
  EXPECT_GE(rate.rate_bps(), 5'000'000'000u);
}

TEST(RateMeter, AddsConcurrentLanes) {
  RateMeter rate(kSlotBytes);
  Lane one(&rate), other(&rate);
  MonotonicNs now = 1;
  one.Post(8, now);
  other.Post(8, now);
  for (int i = 0; i < 500; ++i) {
    now += 100'000;
    for (Lane* lane : {&one, &other}) {
      lane->Post(1, now);
      lane->Acknowledge(1, kSlotBytes, now);
    }
  }
  EXPECT_LE(rate.rate_bps(), 16'000'000'000u);
  EXPECT_GE(rate.rate_bps(), 10'000'000'000u);
}

// After the engine was away, all acknowledgements arrive at one time.
TEST(RateMeter, BatchedAcknowledgementsDoNotInflateRate) {
  RateMeter rate(kSlotBytes);
  Lane lane(&rate);
  MonotonicNs now = 1;
  Stream(&lane, 1000, 8, kSlotBytes, 100'000, &now);
  EXPECT_LE(rate.rate_bps(), 8'000'000'000u);
  EXPECT_GT(rate.rate_bps(), 0u);
}

TEST(RateMeter, IgnoresSmallSlicesAndShortWork) {
  RateMeter rate(kSlotBytes);
  Lane lane(&rate);
  MonotonicNs now = 1;
  Stream(&lane, 500, 1, kSlotBytes / 4, 1000, &now);
  for (int i = 0; i < 100; ++i) Stream(&lane, 10, 1, kSlotBytes, 100'000, &now);
  EXPECT_EQ(rate.rate_bps(), 0u);
}

TEST(RateMeter, IgnoresRateLimitedLane) {
  RateMeter rate(kSlotBytes);
  Lane lane(&rate);
  MonotonicNs now = 1;
  lane.Post(8, now);
  for (int i = 0; i < 500; ++i) {
    now += 100'000;
    lane.Post(1, now);
    lane.Acknowledge(1, kSlotBytes, now);
    if (i % 16 == 0) lane.meter.Drop();
  }
  EXPECT_EQ(rate.rate_bps(), 0u);
}

}  // namespace lane_meter_test
}  // namespace mccs
