// The interval of daemons' periodic reports, by the number of hosts, and how agents get it.
#include "controller/measurement/report_interval.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/explanation.h"
#include "controller/api/work_view.h"
#include "proto/report_interval.h"
#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace report_interval_test {

constexpr int64_t kFirstNs = kDefaultReportIntervalNs;

TEST(ReportInterval, IsTheDefaultUpTo500Hosts) {
  for (const size_t hosts : {0, 1, 2, 499, 500})
    EXPECT_EQ(NextReportInterval(kFirstNs, hosts), kFirstNs);
}

TEST(ReportInterval, GrowsWithTheHostsSoThatReportsPerSecondDoNot) {
  EXPECT_EQ(NextReportInterval(kFirstNs, 1000), kNsPerSec);
  EXPECT_EQ(NextReportInterval(kFirstNs, 2000), 2 * kNsPerSec);
  for (size_t hosts = 501; hosts <= 5000; ++hosts) {
    const int64_t interval = NextReportInterval(kFirstNs, hosts);
    const double host_reports_per_second =
        static_cast<double>(hosts) * kNsPerSec / static_cast<double>(interval);
    ASSERT_LE(host_reports_per_second, 1000) << hosts << " hosts";
    ASSERT_GE(host_reports_per_second, 780) << hosts << " hosts";
  }
}

TEST(ReportInterval, EndsAt5Seconds) {
  EXPECT_EQ(NextReportInterval(kFirstNs, 5000), 5 * kNsPerSec);
  EXPECT_EQ(NextReportInterval(kFirstNs, 16384), 5 * kNsPerSec);
}

TEST(ReportInterval, DoesNotFollowHostsThatComeAndGo) {
  for (const size_t hosts : {501, 631, 801, 1001, 1601, 4001}) {
    const int64_t longer = NextReportInterval(kFirstNs, hosts);
    for (const size_t gone : {size_t{1}, hosts / 20, hosts / 12})
      EXPECT_EQ(NextReportInterval(longer, hosts - gone), longer) << hosts << " less " << gone;
    EXPECT_LT(NextReportInterval(longer, hosts - hosts / 8), longer) << hosts;
    EXPECT_EQ(NextReportInterval(longer, 10), kFirstNs) << "at once";
  }
}

TEST(ReportIntervalFromMessage, IsBounded) {
  EXPECT_EQ(ReportIntervalFrom(0), kDefaultReportIntervalNs);
  EXPECT_EQ(ReportIntervalFrom(-kNsPerSec), kDefaultReportIntervalNs);
  EXPECT_EQ(ReportIntervalFrom(1), kShortestReportIntervalNs);
  EXPECT_EQ(ReportIntervalFrom(2 * kNsPerSec), 2 * kNsPerSec);
  EXPECT_EQ(ReportIntervalFrom(INT64_MAX), kLongestReportIntervalNs);
}

class CoordinatorReportIntervalTest : public CoordinatorTest {
 protected:
  static AgentKey KeyOf(int host) { return AgentKey(static_cast<uint64_t>(host) + 1); }
  // Hosts [first, last) register. Returns the interval that the last one gets.
  int64_t RegisterHosts(int first, int last) {
    int64_t interval = 0;
    for (int h = first; h < last; ++h) {
      const auto out = Send(KeyOf(h), Registration(MakeHost(absl::StrCat("h", h))));
      interval = out.at(0).message->registered().report_every_ns();
    }
    return interval;
  }
  // The new intervals that the next tick sends.
  std::vector<std::pair<AgentKey, int64_t>> SentByTick() {
    std::vector<std::pair<AgentKey, int64_t>> sent;
    for (const Outgoing& out : Tick()) {
      if (out.message && out.message->has_report_interval())
        sent.emplace_back(out.to, out.message->report_interval().every_ns());
    }
    return sent;
  }
};

TEST_F(CoordinatorReportIntervalTest, RegisteredHostsGetTheIntervalOfTheCluster) {
  EXPECT_EQ(RegisterHosts(0, 500), kFirstNs);
  EXPECT_TRUE(SentByTick().empty()) << "it has not changed";
  RegisterHosts(500, 1000);
  SentByTick();
  EXPECT_EQ(RegisterHosts(1000, 1001), kNsPerSec);
}

TEST_F(CoordinatorReportIntervalTest, EachHostGetsAChangedIntervalOnce) {
  RegisterHosts(0, 1000);
  const auto sent = SentByTick();
  ASSERT_EQ(sent.size(), 1000u);
  std::set<AgentKey> agents;
  for (const auto& [agent, interval] : sent) {
    agents.insert(agent);
    EXPECT_EQ(interval, kNsPerSec);
  }
  EXPECT_EQ(agents.size(), 1000u);
  EXPECT_TRUE(SentByTick().empty());
}

TEST_F(CoordinatorReportIntervalTest, FewerHostsReportMoreOftenAgain) {
  RegisterHosts(0, 1000);
  SentByTick();
  for (int h = 400; h < 1000; ++h) coordinator_.OnStreamClosed(KeyOf(h), "its connection closed");
  const auto sent = SentByTick();
  ASSERT_EQ(sent.size(), 400u) << "not the lost ones";
  EXPECT_EQ(sent.front().second, kFirstNs);
}

TEST_F(CoordinatorReportIntervalTest, OperatorsGetTheInterval) {
  StartCommunicator();
  RegisterHosts(2, 1000);
  SentByTick();
  const ClusterState& state = coordinator_.state();
  EXPECT_EQ(ShowWork(GatherWork(state, nullptr), *state.objects).report_every_ns(), kNsPerSec);
  const auto input = GatherExplanation(state, "0", clock_.now);
  ASSERT_TRUE(input.ok());
  EXPECT_EQ(Explain(*input, *state.objects).report_every_ns(), kNsPerSec);
}

}  // namespace report_interval_test
}  // namespace mccs
