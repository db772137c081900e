// Reports of daemons in the registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/state/registry.h"
#include "tests/unit/controller/registry_fixture.h"

namespace mccs {
namespace registry_test {

using testing::HasSubstr;
using testing::IsEmpty;

class RegistryReportsTest : public RegistryTest {};

TEST_F(RegistryReportsTest, KeepsTheLastReportOfEachHost) {
  AnnouncePair();
  agent::v1::Report report = ReportOf(1);
  EXPECT_FALSE(registry_.Report("h1", report).rejected);
  report.set_operations(5);
  EXPECT_FALSE(registry_.Report("h1", report).rejected);
  EXPECT_FALSE(registry_.Report("h0", ReportOf(1)).rejected);
  EXPECT_EQ(Record().reports.size(), 2u);
  EXPECT_EQ(Record().reports.at("h1").operations(), 5u);
}

TEST_F(RegistryReportsTest, AnOversizedReportIsNotStored) {
  AnnouncePair();
  agent::v1::Report large = ReportOf(7);
  for (size_t lane = 0; lane < HostStorage::kMaxReportBytes / sizeof(agent::v1::Lane); ++lane)
    large.add_lanes();
  EXPECT_LT(large.ByteSizeLong(), 1u << 20) << "empty lanes are small on the wire";
  registry_.Report("h1", ReportOf(1));
  const Registry::ReportOutcome outcome = registry_.Report("h1", large);
  EXPECT_EQ(outcome.report, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(outcome.refused)) << outcome.refused;
  EXPECT_THAT(outcome.refused.message(), HasSubstr("host h1"));
  EXPECT_EQ(Record().reports.at("h1").epoch(), 1u) << "the one before";
  EXPECT_NE(registry_.Report("h0", ReportOf(1)).report, nullptr);
}

TEST_F(RegistryReportsTest, TheReportsOfAHostAreBoundedTogether) {
  ASSERT_TRUE(Register(kFirst, "h0").ok());
  ASSERT_TRUE(Register(kSecond, "h1").ok());
  uint64_t stored = 0;
  constexpr size_t kBytes = HostStorage::kMaxReportBytes - 4096;
  const uint64_t most = HostStorage::kMaxHostBytes / kBytes;
  for (uint64_t id = 1; id <= most + 3; ++id) {
    ASSERT_TRUE(Announce("h0", AnnounceOf({"h0", "h1"}, CommId(id))).ok());
    agent::v1::Report report = ReportOf(1);
    report.set_comm_id(id);
    report.set_stalled_on(std::string(kBytes, 'x'));
    if (registry_.Report("h1", report).report != nullptr) ++stored;
  }
  EXPECT_EQ(stored, most);
  agent::v1::Report report = ReportOf(1);
  report.set_comm_id(most + 1);
  report.set_stalled_on(std::string(kBytes, 'x'));
  EXPECT_NE(registry_.Report("h0", report).report, nullptr) << "another host's";
  registry_.OnCommunicatorEnded("h1", CommId(1));  // its part
  EXPECT_NE(registry_.Report("h1", report).report, nullptr) << "there is room again";
}

// It replaces that of the report.
TEST_F(RegistryReportsTest, AnActivityOfTooManySpansIsIgnored) {
  AnnouncePair();
  registry_.Report("h1", ReportOf(1));
  agent::v1::Progress progress;
  progress.set_comm_id(kId.value());
  for (int i = 0; i <= Registry::kMaxActivitySpans; ++i)
    progress.mutable_activity()->add_span_ns(1);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr);
  progress.mutable_activity()->mutable_span_ns()->RemoveLast();
  EXPECT_NE(registry_.ReportProgress("h1", progress).report, nullptr);
}

TEST_F(RegistryReportsTest, AppliesProgressToTheLastReport) {
  AnnouncePair();
  agent::v1::Progress progress;
  progress.set_comm_id(kId.value());
  progress.set_operations(7);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr) << "no report yet";
  registry_.Report("h1", ReportingLane(kId.value(), 1, 0, 61001).reports().complete(0));
  progress.add_lane_payload_bytes(500);
  EXPECT_NE(registry_.ReportProgress("h1", progress).report, nullptr);
  const agent::v1::Report& report = Record().reports.at("h1");
  EXPECT_EQ(report.operations(), 7u);
  EXPECT_EQ(report.lanes(0).payload_bytes(), 500u);
  EXPECT_EQ(report.lanes(0).state(), "up");
  progress.add_lane_payload_bytes(600);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr) << "of a lane too many";
  progress.set_comm_id(77);
  EXPECT_EQ(registry_.ReportProgress("h1", progress).report, nullptr) << "unknown communicator";
}

TEST_F(RegistryReportsTest, ComparesReconnectsOfSuccessiveReports) {
  AnnouncePair();
  agent::v1::Report report = ReportOf(1);
  report.add_lanes()->set_reconnects(3);
  EXPECT_FALSE(registry_.Report("h0", report).lanes_broken) << "nothing to compare it with";
  EXPECT_FALSE(registry_.Report("h0", report).lanes_broken);
  report.mutable_lanes(0)->set_reconnects(4);
  EXPECT_TRUE(registry_.Report("h0", report).lanes_broken);
}

TEST_F(RegistryReportsTest, IgnoresReportsThatDoNotMatch) {
  AnnouncePair();
  ASSERT_TRUE(Register(kThird, "h2").ok());
  EXPECT_FALSE(registry_.Report("h2", ReportOf(1, /*rejected_epoch=*/9)).rejected)
      << "not a member";
  agent::v1::Report unknown = ReportOf(1);
  unknown.set_comm_id(77);
  EXPECT_FALSE(registry_.Report("h0", unknown).rejected);
  EXPECT_THAT(Record().reports, IsEmpty());
  EXPECT_EQ(Record().newest_epoch, 1u);
  EXPECT_FALSE(Has(CommId(77)));
}

}  // namespace registry_test
}  // namespace mccs
