// mccsd's GET /metrics, from a daemon's counters.
#include "service/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <set>
#include <vector>

#include "base/clock.h"

namespace mccs {
namespace metrics_test {

using testing::HasSubstr;
using testing::Not;

std::string Text(const DaemonCounters& counters, const DaemonFacts& facts = {}) {
  return prometheus::TextSerializer().Serialize(DaemonMetrics(counters, facts));
}

TEST(DaemonMetrics, HaveTheEndOfACertificateIfThereIsOne) {
  const DaemonCounters counters;
  DaemonFacts facts;
  EXPECT_THAT(Text(counters, facts), Not(HasSubstr("mccs_certificate")));
  facts.certificate_end_s = 1'800'000'000;
  EXPECT_THAT(Text(counters, facts),
              HasSubstr("\nmccs_certificate_end_timestamp_seconds 1800000000\n"));
  facts.certificate_end_s = 0;
  EXPECT_THAT(Text(counters, facts), HasSubstr("\nmccs_certificate_end_timestamp_seconds 0\n"))
      << "it cannot be read";
}

TEST(DaemonMetrics, HaveAwaitedRanksAsLongAsAnOperationWaits) {
  DaemonCounters counters;
  {
    Stalls::Entry entry(&counters.stalls, CommId(42));
    EXPECT_THAT(Text(counters), Not(HasSubstr("mccs_awaited_ranks{")));
    entry.Set({.tenant = "team-a", .ranks = {{3, "h1"}}, .hosts = {}});
    EXPECT_THAT(Text(counters),
                HasSubstr("\nmccs_awaited_ranks{tenant=\"team-a\",rank=\"3\",host=\"h1\"} 1\n"));
    Stalls::Entry other(&counters.stalls, CommId(43));
    other.Set({.tenant = "team-a", .ranks = {{3, "h1"}, {4, "h1"}}, .hosts = {}});
    EXPECT_THAT(Text(counters), HasSubstr("rank=\"3\",host=\"h1\"} 2\n"));
    EXPECT_THAT(Text(counters), HasSubstr("rank=\"4\",host=\"h1\"} 1\n"));
    other.Set({.tenant = "team-a", .ranks = {}, .hosts = {}});
    entry.Set({.tenant = "team-a", .ranks = {}, .hosts = {}});
    EXPECT_THAT(Text(counters), Not(HasSubstr("mccs_awaited_ranks{")));
    entry.Set({.tenant = "team-a",
               .ranks = std::vector<AwaitedRank>(1000),
               .hosts = std::vector<AwaitedHost>(1000)});
    EXPECT_EQ(counters.stalls.All().at(CommId(42)).ranks.size(), Stalls::kMost);
    EXPECT_EQ(counters.stalls.All().at(CommId(42)).hosts.size(), Stalls::kMost);
  }
  EXPECT_TRUE(counters.stalls.All().empty());
}

TEST(DaemonMetrics, HaveAwaitedHostsAsLongAsAnOperationMakesNoProgress) {
  DaemonCounters counters;
  Stalls::Entry entry(&counters.stalls, CommId(42));
  Stalls::Entry other(&counters.stalls, CommId(43));
  EXPECT_THAT(Text(counters), Not(HasSubstr("mccs_awaited_hosts{")));
  entry.Set({.tenant = "team-a",
             .ranks = {},
             .hosts = {{"h1", StallCause::kData}, {"h2", StallCause::kConnection}}});
  other.Set({.tenant = "team-a", .ranks = {}, .hosts = {{"h1", StallCause::kData}}});
  const std::string text = Text(counters);
  EXPECT_THAT(
      text,
      HasSubstr("\nmccs_awaited_hosts{tenant=\"team-a\",host=\"h1\",waits_for=\"data\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("{tenant=\"team-a\",host=\"h2\",waits_for=\"connection\"} 1\n"));
  other.Set({});
  entry.Set({});
  EXPECT_THAT(Text(counters), Not(HasSubstr("mccs_awaited_hosts{")));
}

TEST(DaemonMetrics, ReportHandshakesByResult) {
  DaemonCounters counters;
  counters.peers.not_authenticated.Add(2);
  EXPECT_THAT(Text(counters),
              HasSubstr("\nmccs_peer_handshakes_total{result=\"not_authenticated\"} 2\n"));
}

TEST(DaemonMetrics, ReportWorkByTenant) {
  DaemonCounters counters;
  const auto tenant = counters.Of("team-a");
  TenantCounters::Work& work = tenant->work[static_cast<size_t>(OpKind::kAllReduce)];
  work.operations.Add(3);
  work.bytes.Add(3 << 20);
  tenant->received.bytes.Add(7);
  tenant->failures[FailureClassOf(absl::UnavailableError(""))].Add(2);
  tenant->active.Add(1);
  tenant->buffer_bytes.Add(4096);
  tenant->changes_rejected.Add(1);
  tenant->sent.wait_ns[2].Add(1'500'000'000);
  tenant->EnterEpoch(5);
  const std::string text = Text(counters);
  for (const char* line :
       {"\nmccs_operations_total{tenant=\"team-a\",kind=\"all_reduce\"} 3\n",
        "\nmccs_operation_bytes_total{tenant=\"team-a\",kind=\"all_reduce\"} 3145728\n",
        "\nmccs_lane_bytes_total{tenant=\"team-a\",direction=\"received\"} 7\n",
        "\nmccs_lane_bytes_total{tenant=\"team-a\",direction=\"sent\"} 0\n",
        "\nmccs_communicator_failures_total{tenant=\"team-a\",reason=\"remote\"} 2\n",
        "\nmccs_communicators{tenant=\"team-a\",state=\"active\"} 1\n",
        "\nmccs_buffer_bytes{tenant=\"team-a\"} 4096\n",
        "\nmccs_lane_wait_seconds_total{tenant=\"team-a\",reason=\"rate\"} 1.5\n",
        "\nmccs_strategy_changes_total{tenant=\"team-a\",result=\"rejected\"} 1\n",
        "\nmccs_strategy_epoch_highest{tenant=\"team-a\"} 5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("broadcast"))) << "the tenant never called it";
}

TEST(DaemonMetrics, ReportVersionAndEngineLoad) {
  DaemonCounters counters;
  counters.turns.Add(10);
  counters.awake_ns.RaiseTo(kNsPerSec / 2);
  const std::string text =
      Text(counters,
           {.host = "h0", .version = "1.2", .controller_connected = true, .log_lines_dropped = 3});
  EXPECT_THAT(text,
              HasSubstr("mccs_build_info{component=\"mccsd\",host=\"h0\",version=\"1.2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_agent_connected 1\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_engine_turns_total 10\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_engine_awake_seconds_total 0.5\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_engine_asleep 0\n"));
  EXPECT_THAT(text, HasSubstr("\nmccs_log_lines_dropped_total 3\n"));
  counters.asleep.Set(1);
  EXPECT_THAT(Text(counters, {}), HasSubstr("\nmccs_engine_asleep 1\n"));
}

// The names that operators' dashboards and Prometheus' checks expect.
TEST(DaemonMetrics, NamesFollowTheRules) {
  DaemonCounters counters;
  counters.Of("a")->work[1].operations.Add(1);
  Stalls::Entry awaited(&counters.stalls, CommId(42));
  awaited.Set({.tenant = "a", .ranks = {{3, "h1"}}, .hosts = {{"h1", StallCause::kDaemon}}});
  std::set<std::string> names;
  for (const prometheus::MetricFamily& family : DaemonMetrics(counters, {})) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_THAT(family.name, testing::MatchesRegex("mccs_[a-z_]+"));
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total"))
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_FALSE(family.metric.empty()) << family.name;
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const auto& label : metric.label) {
        // Ranks that are awaited are few, and only as long as they are.
        EXPECT_TRUE(label.name != "rank" || family.name == "mccs_awaited_ranks");
        EXPECT_NE(label.name, "communicator");
      }
    }
  }
}

}  // namespace metrics_test
}  // namespace mccs
