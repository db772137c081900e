#include "proto/report_progress.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "proto/same_message.h"

namespace mccs {
namespace report_progress_test {

agent::v1::Report Report() {
  agent::v1::Report report;
  report.set_comm_id(7);
  report.set_epoch(3);
  report.set_state("active");
  for (const char* kind : {"all_reduce", "broadcast"}) report.add_work()->set_kind(kind);
  for (int channel = 0; channel < 3; ++channel) {
    report.add_lanes()->set_channel(channel);
    report.mutable_lanes(channel)->set_state("up");
  }
  return report;
}

// Changes some of the numbers that Progress has.
void Work(std::mt19937_64& random, agent::v1::Report* report) {
  const auto number = [&] { return random() % 3 == 0 ? random() : random() % 100; };
  const auto maybe = [&] { return random() % 2 == 0; };
  report->set_operations(number());
  report->set_bytes(number());
  for (agent::v1::KindWork& work : *report->mutable_work()) {
    if (maybe()) work.set_operations(number());
    if (maybe()) work.set_bytes(number());
  }
  for (agent::v1::Lane& lane : *report->mutable_lanes()) {
    if (maybe()) lane.set_payload_bytes(number());
    if (maybe()) lane.set_waited_for_credit_ns(static_cast<int64_t>(number()));
    if (maybe()) lane.set_waited_for_rate_ns(static_cast<int64_t>(number()));
    if (maybe()) lane.set_waited_for_connection_ns(static_cast<int64_t>(number()));
    if (maybe()) lane.set_round_trip_ns(static_cast<int64_t>(number()));
  }
  if (maybe()) report->mutable_with_options()->set_last_number(number());
  if (maybe()) {
    report->mutable_activity()->set_begin_ns(static_cast<int64_t>(number()));
    report->mutable_activity()->add_span_ns(number());
  }
  report->set_measured_ns(static_cast<int64_t>(number()));
  report->set_sent_bps(number());
  report->set_memory_bps(number());
}

TEST(ReportProgress, AppliedToTheLastReportGivesTheNext) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    agent::v1::Report known = Report(), now = Report();
    for (int i = 0; i < 10; ++i) {
      Work(random, &now);
      const std::optional<agent::v1::Progress> progress = ProgressBetween(known, now);
      ASSERT_TRUE(progress.has_value());
      ASSERT_TRUE(ApplyProgress(*progress, &known));
      ASSERT_TRUE(IsSameMessage(known, now)) << known.ShortDebugString();
    }
  }
}

TEST(ReportProgress, OmitsNumbersThatHaveNotChanged) {
  agent::v1::Report now = Report();
  now.mutable_lanes(1)->set_payload_bytes(5);
  const std::optional<agent::v1::Progress> progress = ProgressBetween(Report(), now);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->lane_payload_bytes_size(), 3);
  EXPECT_EQ(progress->lane_round_trip_ns_size(), 0);
  EXPECT_EQ(progress->kind_bytes_size(), 0);
}

TEST(ReportProgress, CannotExpressOtherChanges) {
  const auto expressible = [](auto change) {
    agent::v1::Report now = Report();
    now.set_operations(1);
    change(now);
    return ProgressBetween(Report(), now).has_value();
  };
  using R = agent::v1::Report;
  EXPECT_TRUE(expressible([](R&) {}));
  EXPECT_FALSE(expressible([](R& now) { now.set_epoch(4); }));
  EXPECT_FALSE(expressible([](R& now) { now.set_state("failed"); }));
  EXPECT_FALSE(expressible([](R& now) { now.set_stalled_on("rank 1"); }));
  EXPECT_FALSE(expressible([](R& now) { now.set_rejected_epoch(4); }));
  EXPECT_FALSE(expressible([](R& now) { now.add_lanes(); }));
  EXPECT_FALSE(expressible([](R& now) { now.mutable_lanes()->RemoveLast(); }));
  EXPECT_FALSE(expressible([](R& now) { now.mutable_lanes(0)->set_reconnects(1); }));
  EXPECT_FALSE(expressible([](R& now) { now.mutable_lanes(0)->set_state("reconnecting"); }));
  EXPECT_FALSE(expressible([](R& now) { now.add_work()->set_kind("reduce"); }));
  R active = Report();
  active.mutable_activity()->set_begin_ns(5);
  EXPECT_FALSE(ProgressBetween(active, Report()).has_value());
}

TEST(ReportProgress, IsNotAppliedToAReportWithOtherLanes) {
  agent::v1::Report now = Report();
  now.mutable_lanes(1)->set_payload_bytes(5);
  const std::optional<agent::v1::Progress> progress = ProgressBetween(Report(), now);
  ASSERT_TRUE(progress.has_value());
  agent::v1::Report other = Report();
  other.add_lanes();
  const agent::v1::Report before = other;
  EXPECT_FALSE(ApplyProgress(*progress, &other));
  EXPECT_TRUE(IsSameMessage(other, before));
}

}  // namespace report_progress_test
}  // namespace mccs
