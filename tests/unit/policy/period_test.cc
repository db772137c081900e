#include "controller/policy/period.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace mccs {
namespace period_test {

using testing::HasSubstr;

int64_t Ms(double ms) { return std::llround(ms * kNsPerMs); }

// A job that computes, then communicates in `calls` calls with short pauses between them.
struct Job {
  double compute_ms = 100;
  double call_ms = 50;
  int calls = 1;
  double pause_ms = 0;
  double jitter = 0;  // standard deviation of all durations, relative
};

class Work {
 public:
  explicit Work(uint64_t seed) : random_(seed) {}

  void Run(const Job& job, int bursts) {
    for (int b = 0; b < bursts; ++b) {
      now_ += Some(job.compute_ms, job);
      onset_ = now_;
      for (int c = 0; c < job.calls; ++c) {
        if (c > 0) now_ += Some(job.pause_ms, job);
        const MonotonicNs begin = now_;
        now_ += Some(job.call_ms, job);
        spans_.push_back({begin, now_});
      }
    }
  }
  void Rest(double ms) { now_ += Ms(ms); }
  std::vector<WorkSpan>& spans() { return spans_; }
  MonotonicNs onset() const { return onset_; }

 private:
  int64_t Some(double ms, const Job& job) {
    std::normal_distribution<double> times(1, job.jitter);
    return Ms(ms * std::max(0.1, times(random_)));
  }

  std::mt19937_64 random_;
  MonotonicNs now_ = 5 * kNsPerSec;
  MonotonicNs onset_ = 0;
  std::vector<WorkSpan> spans_;
};

void ExpectPeriod(const absl::StatusOr<Period>& found, double period_ms, double busy_ms,
                  double tolerance = 0.02) {
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_NEAR(static_cast<double>(found->period_ns) / kNsPerMs, period_ms, tolerance * period_ms);
  EXPECT_NEAR(static_cast<double>(found->busy_ns) / kNsPerMs, busy_ms, 3 * tolerance * period_ms);
}

TEST(Period, FindsThePeriodOfARegularJob) {
  Work work(1);
  work.Run({.compute_ms = 160, .call_ms = 44}, 10);
  const auto found = FindPeriod(work.spans(), {});
  ExpectPeriod(found, 204, 44, 1e-6);
  EXPECT_EQ(found->onset, work.onset());
  EXPECT_EQ(found->error_ns, 0);
}

TEST(Period, ManyCallsFormOneBurst) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Work work(seed);
    work.Run({.compute_ms = 150, .call_ms = 5, .calls = 8, .pause_ms = 2, .jitter = 0.02}, 12);
    ExpectPeriod(FindPeriod(work.spans(), {}), 204, 54);
  }
}

TEST(Period, JitterBecomesTheError) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Work work(seed);
    const Job job{.compute_ms = 160, .call_ms = 44, .jitter = 0.05};
    work.Run(job, 14);
    const auto found = FindPeriod(work.spans(), {.horizon_ns = Ms(500)});
    ExpectPeriod(found, 204, 44, 0.06);
    EXPECT_GT(found->error_ns, Ms(2));
    EXPECT_LT(found->error_ns, Ms(90));
  }
}

// The next bursts start within the predicted error almost always.
TEST(Period, NextBurstsAreWithinTheError) {
  int within = 0, all = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Work work(seed);
    const Job job{.compute_ms = 70, .call_ms = 30, .jitter = 0.04};
    work.Run(job, 16);
    const auto found = FindPeriod(work.spans(), {.horizon_ns = Ms(500)});
    ASSERT_TRUE(found.ok()) << "seed " << seed << ": " << found.status();
    for (int ahead = 1; ahead <= 5; ++ahead) {
      work.Run(job, 1);
      const MonotonicNs predicted = found->onset + ahead * found->period_ns;
      within += std::abs(work.onset() - predicted) <= found->error_ns ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GT(within, all * 95 / 100) << within << " of " << all;
}

TEST(Period, ASlowDriftIsFollowed) {
  Work work(3);
  for (int i = 0; i < 20; ++i) work.Run({.compute_ms = 100 + 0.5 * i, .call_ms = 50}, 1);
  ExpectPeriod(FindPeriod(work.spans(), {}), 158, 50, 0.02);
}

TEST(Period, ReportsThatMissBurstsDoNotMatter) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Work work(seed);
    work.Run({.compute_ms = 160, .call_ms = 44, .jitter = 0.01}, 16);
    std::mt19937_64 random(seed);
    const auto lost = static_cast<int64_t>(2 + random() % 5);
    work.spans().erase(work.spans().begin() + lost);
    work.spans().erase(work.spans().begin() + lost + 4);
    ExpectPeriod(FindPeriod(work.spans(), {}), 204, 44);
  }
}

TEST(Period, LongPauseIsForgotten) {
  Work work(1);
  const Job job{.compute_ms = 20, .call_ms = 10, .jitter = 0.02};
  work.Run(job, 20);
  work.Rest(5000);
  work.Run(job, 3);
  ExpectPeriod(FindPeriod(work.spans(), {}), 30, 10, 0.05);
}

// While others start to wait for it, its bursts become shorter.
TEST(Period, JobWithMoreBandwidthStaysRegular) {
  Work work(1);
  work.Run({.compute_ms = 100, .call_ms = 100}, 12);
  for (int burst = 1; burst < 12; ++burst) {
    work.Run({.compute_ms = 100, .call_ms = 50}, 1);
    const auto found = FindPeriod(work.spans(), {});
    ASSERT_TRUE(found.ok()) << found.status();
    if (burst >= 4) ExpectPeriod(found, 150, 50, 1e-3);
  }
}

TEST(Period, UnfinishedBurstCountsByItsStart) {
  Work work(1);
  work.Run({.compute_ms = 100, .call_ms = 50}, 10);
  work.spans().back().end = work.onset() + Ms(1);
  const auto found = FindPeriod(work.spans(), {.ongoing = true});
  ExpectPeriod(found, 150, 50, 1e-6);
  EXPECT_EQ(found->onset, work.onset());
}

TEST(Period, RandomTimesHaveNoPeriod) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> pause(1.0 / 80);
    std::vector<WorkSpan> spans;
    MonotonicNs now = kNsPerSec;
    for (int i = 0; i < 30; ++i) {
      now += Ms(2 + pause(random));
      spans.push_back({now, now + Ms(20)});
      now += Ms(20);
    }
    const auto some = FindPeriod(spans, {});
    found += some.ok() && some->busy_ns + 2 * some->error_ns < some->period_ns ? 1 : 0;
  }
  EXPECT_EQ(found, 0) << "random jobs with a period";
}

TEST(Period, MessageSaysWhyThereIsNoPeriod) {
  EXPECT_THAT(FindPeriod({}, {}).status().message(), HasSubstr("too few bursts"));
  Work work(1);
  work.Run({}, 4);
  EXPECT_THAT(FindPeriod(work.spans(), {}).status().message(), HasSubstr("too few bursts"));
  for (double compute : {20, 300, 90, 700, 40, 500, 150}) work.Run({.compute_ms = compute}, 1);
  EXPECT_THAT(FindPeriod(work.spans(), {}).status().message(), HasSubstr("no regular period"));
  // Communicates all the time.
  const std::vector<WorkSpan> always = {{Ms(1), Ms(5000)}};
  EXPECT_FALSE(FindPeriod(always, {.ongoing = true}).ok());
}

// Its second irregular burst ends the prediction.
TEST(Period, IrregularJobSoonHasNoPeriod) {
  Work work(1);
  work.Run({.compute_ms = 100, .call_ms = 50}, 16);
  work.Run({.compute_ms = 180, .call_ms = 50}, 1);
  work.Run({.compute_ms = 20, .call_ms = 90}, 1);
  const auto found = FindPeriod(work.spans(), {});
  EXPECT_TRUE(!found.ok() || found->busy_ns + found->error_ns > found->period_ns);
}

TEST(Period, UnionMergesSpans) {
  const std::vector<WorkSpan> spans =
      Union({{Ms(50), Ms(60)}, {Ms(10), Ms(20)}, {Ms(15), Ms(30)}, {Ms(30), Ms(31)}});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].begin, Ms(10));
  EXPECT_EQ(spans[0].end, Ms(31));
  EXPECT_EQ(spans[1].end, Ms(60));
}

}  // namespace period_test
}  // namespace mccs
