#include "service/communicator/links/activity_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace mccs {
namespace activity_log_test {

using testing::ElementsAre;

std::vector<BusySpan> SpansOf(const ActivityLog& log) {
  return {log.spans().begin(), log.spans().end()};
}

TEST(ActivityLog, RecordsSpansOfWork) {
  ActivityLog log;
  log.Update(false, 0, 1 * kNsPerMs);
  EXPECT_TRUE(log.spans().empty());
  log.Update(true, 0, 2 * kNsPerMs);
  log.Update(true, 0, 3 * kNsPerMs);
  EXPECT_TRUE(log.busy());
  log.Update(true, 1, 4 * kNsPerMs);  // one call right after the other
  log.Update(false, 2, 5 * kNsPerMs);
  log.Update(false, 2, 6 * kNsPerMs);
  log.Update(true, 2, 9 * kNsPerMs);
  EXPECT_THAT(SpansOf(log), ElementsAre(BusySpan{2 * kNsPerMs, 5 * kNsPerMs},
                                        BusySpan{9 * kNsPerMs, 9 * kNsPerMs}));
}

TEST(ActivityLog, ReportsSpansAndPauses) {
  ActivityLog log;
  agent::v1::Report report;
  log.Write(kNsPerMs, &report);
  EXPECT_FALSE(report.has_activity());
  for (const auto& [begin, end] : {std::pair{10, 13}, {20, 25}}) {
    log.Update(true, 0, begin * kNsPerMs);
    log.Update(false, 0, end * kNsPerMs);
  }
  log.Update(true, 0, 40 * kNsPerMs);
  log.Write(42 * kNsPerMs, &report);
  EXPECT_EQ(report.activity().begin_ns(), 10 * kNsPerMs);
  EXPECT_TRUE(report.activity().ongoing());
  EXPECT_THAT(report.activity().span_ns(),
              ElementsAre(3 * kNsPerMs, 7 * kNsPerMs, 5 * kNsPerMs, 15 * kNsPerMs, 2 * kNsPerMs));
}

TEST(ActivityLog, RecordsSpanOfLengthZeroBetweenUpdates) {
  ActivityLog log;
  log.Update(false, 1, 10 * kNsPerMs);
  log.Update(false, 1, 11 * kNsPerMs);
  EXPECT_FALSE(log.busy());
  EXPECT_THAT(SpansOf(log), ElementsAre(BusySpan{10 * kNsPerMs, 10 * kNsPerMs}));
}

TEST(ActivityLog, IgnoresPausesBelowResolution) {
  ActivityLog log;
  const int64_t short_pause = ActivityLog::kMinResolutionNs - 1;
  log.Update(true, 0, kNsPerMs);
  log.Update(false, 1, 2 * kNsPerMs);
  log.Update(true, 1, 2 * kNsPerMs + short_pause);
  log.Update(false, 2, 3 * kNsPerMs);
  EXPECT_THAT(SpansOf(log), ElementsAre(BusySpan{kNsPerMs, 3 * kNsPerMs}));
}

// 100 calls of 0.2 ms with pauses of 1 ms, then a pause of 300 ms, repeatedly.
TEST(ActivityLog, KeepsOldSpansDuringBurst) {
  ActivityLog log;
  MonotonicNs now = kNsPerSec;
  uint64_t completed = 0;
  for (int burst = 0; burst < 30; ++burst, now += 300 * kNsPerMs) {
    for (int call = 0; call < 100; ++call, now += kNsPerMs) {
      log.Update(true, completed, now);
      now += kNsPerMs / 5;
      log.Update(false, ++completed, now);
    }
  }
  EXPECT_GT(now - log.spans().front().begin, ActivityLog::kMinCoverageNs);
  EXPECT_LE(log.spans().size(), ActivityLog::kMaxSpans);
}

TEST(ActivityLog, RefinesResolutionWithLongCoverage) {
  ActivityLog log;
  MonotonicNs now = kNsPerSec;
  uint64_t completed = 0;
  const auto work = [&](int calls, int64_t busy_ns, int64_t pause_ns) {
    for (int call = 0; call < calls; ++call, now += pause_ns) {
      log.Update(true, completed, now);
      now += busy_ns;
      log.Update(false, ++completed, now);
    }
  };
  work(1000, kNsPerMs, kNsPerMs);
  EXPECT_GT(log.resolution_ns(), ActivityLog::kMinResolutionNs);
  work(200, 50 * kNsPerMs, 100 * kNsPerMs);
  EXPECT_EQ(log.resolution_ns(), ActivityLog::kMinResolutionNs);
  now += ActivityLog::kMaxPauseNs;
  work(1, kNsPerMs, kNsPerMs);
  EXPECT_EQ(log.spans().size(), 1u);
}

TEST(ActivityLog, SpansStaySortedAndDisjoint) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    ActivityLog log;
    MonotonicNs now = kNsPerSec;
    uint64_t completed = 0;
    for (int i = 0; i < 3000; ++i) {
      now += int64_t{1} << (random() % 28);
      completed += random() % 2;
      log.Update(random() % 2 == 0, completed, now);
      MonotonicNs last = 0;
      for (const BusySpan& span : log.spans()) {
        ASSERT_GT(span.begin, last);
        ASSERT_GE(span.end, span.begin);
        last = span.end;
      }
      ASSERT_LE(last, now);
    }
  }
}

}  // namespace activity_log_test
}  // namespace mccs
