// The content of GET /metrics of mccs-controller.
#include "controller/api/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include "controller/store/memory_store.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace metrics_test {

using testing::HasSubstr;

class ControllerMetricsTest : public testing::Test {
 protected:
  std::string Text(const StoreCounts& store = {}) {
    return prometheus::TextSerializer().Serialize(ControllerMetrics(coordinator_, store));
  }

  ManualClock clock_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  Coordinator coordinator_{{.version = "1.2"}, &clock_, log_.get()};
};

TEST_F(ControllerMetricsTest, FollowsAProposalUntilItIsApplied) {
  coordinator_.Handle(AgentKey(1), Registration(MakeHost("h0")));
  coordinator_.Handle(AgentKey(2), Registration(MakeHost("h1")));
  coordinator_.Handle(AgentKey(1), Announcement(MakeAnnounce(7, {"h0", "h1"})));
  coordinator_.OnStreamClosed(AgentKey(2), "its connection closed");
  std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("mccs_build_info{component=\"mccs-controller\",version=\"1.2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_hosts{state=\"ready\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_hosts{state=\"lost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_communicators{tenant=\"uid 1000\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_decisions_total{policy=\"locality_ring\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_proposals_pending 1\n"));
  coordinator_.Handle(AgentKey(3), Registration(MakeHost("h1")));
  clock_.now += 2 * kNsPerSec;
  coordinator_.Handle(AgentKey(1), Reporting(7, 2));
  coordinator_.Handle(AgentKey(3), Reporting(7, 2));
  text = Text();
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_proposals_pending 0\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_proposals_total{result=\"applied\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_bucket{le=\"3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_sum 2\n"));
}

TEST_F(ControllerMetricsTest, CountsCommunicatorsByTenantName) {
  coordinator_.Handle(AgentKey(1), Registration(MakeHost("h0")));
  coordinator_.Handle(AgentKey(1), Announcement(MakeAnnounce(7, {"h0"})));
  coordinator_.SetObjects(
      std::make_shared<const ObjectSet>(After({}, TenantDocument("team-a", 1000))));
  EXPECT_THAT(Text(), HasSubstr("\nmccs_controller_communicators{tenant=\"team-a\"} 1\n"));
  EXPECT_THAT(Text(), testing::Not(HasSubstr("uid 1000")));
}

TEST_F(ControllerMetricsTest, CountsCommitsAndAuditEntries) {
  CountingStore store(std::make_unique<MemoryStore>(), &clock_);
  StoreChange change;
  for (const char* outcome : {"done", "rejected: no such tenant"}) {
    AuditEntry& entry = change.audit.emplace_back();
    entry.action = "apply";
    entry.outcome = outcome;
  }
  ASSERT_TRUE(store.Commit(change).ok());
  change.revision = 17;  // neither the stored one nor the next
  EXPECT_FALSE(store.Commit(change).ok());
  const std::string text = Text(store.counts());
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_store_commits_total{result=\"done\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_store_commits_total{result=\"failed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("mccs_controller_audit_entries_total{action=\"apply\","
                              "outcome=\"rejected\"} 1\n"));
}

TEST_F(ControllerMetricsTest, NamesFollowTheRules) {
  for (const prometheus::MetricFamily& family : ControllerMetrics(coordinator_, {})) {
    EXPECT_THAT(family.name, testing::MatchesRegex("mccs_[a-z_]+"));
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total"))
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

}  // namespace metrics_test
}  // namespace mccs
