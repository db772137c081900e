// The content of GET /metrics of mccs-controller.
#include "controller/api/metrics.h"

#include <prometheus/text_serializer.h>

#include "controller/store/memory_store.h"
#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace metrics_test {

using testing::HasSubstr;

class ControllerMetricsTest : public CoordinatorTest {
 protected:
  std::string Text(const StoreCounts& store = {}, const RefusedCounts& refused = {}) {
    return prometheus::TextSerializer().Serialize(ControllerMetrics(coordinator_, store, refused));
  }
};

TEST_F(ControllerMetricsTest, FollowsAProposalUntilItIsApplied) {
  AnnouncePair();
  coordinator_.OnStreamClosed(kSecond, "its connection closed");
  std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("mccs_build_info{component=\"mccs-controller\",version=\"test\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_hosts{state=\"ready\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_hosts{state=\"lost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_communicators{tenant=\"uid 1000\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_decisions_total{policy=\"locality_ring\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_proposals_pending 1\n"));
  Send(kThird, Registration(MakeHost("h1")));
  clock_.now += 2 * kNsPerSec;
  Send(kFirst, Reporting(1, 2));
  Send(kThird, Reporting(1, 2));
  text = Text();
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_proposals_pending 0\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_proposals_total{result=\"applied\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_bucket{le=\"3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_controller_convergence_seconds_sum 2\n"));
}

TEST_F(ControllerMetricsTest, HasTheEndOfItsCertificateIfThereIsOne) {
  EXPECT_THAT(Text(), testing::Not(HasSubstr("mccs_certificate")));
  coordinator_.SetCertificateEnd(1'800'000'000);
  EXPECT_THAT(Text(), HasSubstr("\nmccs_certificate_end_timestamp_seconds 1800000000\n"));
}

TEST_F(ControllerMetricsTest, CountsCommunicatorsByTenantName) {
  AnnouncePair();
  SetObjects(TenantDocument("team-a", 1000));
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

TEST_F(ControllerMetricsTest, CountsRefusedHandshakesByReason) {
  RefusedCounts refused{};
  refused[static_cast<size_t>(RefusalReason::kForeign)] = 3;
  const std::string text = Text({}, refused);
  EXPECT_THAT(text,
              HasSubstr("\nmccs_controller_clients_refused_total{reason=\"foreign\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("\nmccs_controller_clients_refused_total{reason=\"missing\"} 0\n"));
}

TEST_F(ControllerMetricsTest, NamesFollowTheRules) {
  for (const prometheus::MetricFamily& family : ControllerMetrics(coordinator_, {}, {})) {
    EXPECT_THAT(family.name, testing::MatchesRegex("mccs_[a-z_]+"));
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total"))
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

}  // namespace metrics_test
}  // namespace mccs
