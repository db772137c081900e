#include "tools/mccsctl/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/traces.h"

namespace mccs {
namespace trace_report_test {

using testing::ElementsAre;

std::vector<std::string> NamesOf(const std::vector<Hop>& hops) {
  std::vector<std::string> names;
  for (const Hop& hop : hops) names.push_back(hop.name);
  return names;
}

TEST(TraceReport, HopsAddUpToTheWhole) {
  trace::Host host;
  AddOperation(1, {100, 110, 130, 160, 200, 250, 310, 380}, &host);
  const std::vector<Hop> hops = HopsOf(host);
  EXPECT_THAT(NamesOf(hops),
              ElementsAre("ranks", "ready", "send", "arrive", "receive", "device", "done"));
  int64_t next = 10;
  double shares = 0;
  for (const Hop& hop : hops) {
    EXPECT_THAT(hop.ns, ElementsAre(next)) << hop.name;
    EXPECT_DOUBLE_EQ(hop.share, static_cast<double>(next) / 280) << hop.name;
    shares += hop.share;
    next += 10;
  }
  EXPECT_DOUBLE_EQ(shares, 1);
  EXPECT_THAT(WholeTimesOf(host), ElementsAre(280));
}

TEST(TraceReport, AHostThatForwardsReceivesBeforeItSends) {
  trace::Host host;
  AddOperation(1, {100, 100, 110, 250, 150, 150, 260, 270}, &host);
  const std::vector<Hop> hops = HopsOf(host);
  ASSERT_EQ(hops.size(), 7u);
  EXPECT_STREQ(hops[2].name, "send");
  EXPECT_THAT(hops[2].ns, ElementsAre(100)) << "since the last slice landed";
  EXPECT_THAT(hops[3].ns, ElementsAre(40)) << "since the start";
  for (const Hop& hop : hops) EXPECT_GE(hop.ns.front(), 0) << hop.name;
}

TEST(TraceReport, AHostWithoutLanesHasNoHopsOfSlices) {
  trace::Host host;
  AddOperation(1, {100, 110, 130, 0, 0, 0, 310, 380}, &host);
  EXPECT_THAT(NamesOf(HopsOf(host)), ElementsAre("ranks", "ready", "device", "done"));
}

TEST(TraceReport, PercentilesAreNearestRanks) {
  std::vector<int64_t> values;
  for (int64_t i = 1; i <= 200; ++i) values.push_back(i);
  EXPECT_EQ(Percentile(values, 0.5), 100);
  EXPECT_EQ(Percentile(values, 0.99), 198);
  EXPECT_EQ(Percentile(values, 1), 200);
  EXPECT_EQ(Percentile({7}, 0.01), 7);
}

TEST(TraceReport, NamesHostsWithoutOperations) {
  EXPECT_THAT(HostsWithoutOperations(TraceOfThreeHosts()),
              ElementsAre("host h2: it is lost since 2 s: its connection closed"));
}

TEST(TraceReport, ChromeTraceHasAnEventPerHop) {
  const auto trace = nlohmann::json::parse(RenderChromeTrace(TraceOfThreeHosts()));
  EXPECT_EQ(trace["displayTimeUnit"], "ns");
  int whole = 0, hops = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"], 0.0) << "each host's axis starts at its first operation";
    EXPECT_GT(event["dur"], 0.0);
    if (event.contains("args")) {
      ++hops;
    } else {
      ++whole;
    }
  }
  EXPECT_EQ(whole, 102);
  EXPECT_EQ(hops, 100 * 7 + 2 * 4);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "h0");
  EXPECT_EQ(trace["traceEvents"][1]["name"], "#1200 all_reduce of 8 B");
  EXPECT_EQ(trace["traceEvents"][1]["dur"], 12.0) << "in microseconds";
}

TEST(TraceReport, KnownClocksGiveOneTimeAxis) {
  control::v1::TraceReply reply;
  for (const int64_t offset : {1000, -1000}) {
    trace::Host* host = reply.add_hosts();
    host->set_host("h");
    host->set_clock_offset_ns(offset);
    host->set_clock_error_ns(7);
    const int64_t at = 5000 + offset + (offset < 0 ? 300 : 0);
    AddOperation(1, {at, at, at, 0, 0, 0, at + 10, at + 20}, host);
  }
  const auto events = nlohmann::json::parse(RenderChromeTrace(reply))["traceEvents"];
  std::vector<double> begins;
  for (const auto& event : events) {
    if (event["ph"] == "M") {
      EXPECT_EQ(event["args"]["name"], "h (clock ± 7 ns)");
    } else if (!event.contains("args")) {
      begins.push_back(event["ts"]);
    }
  }
  EXPECT_THAT(begins, ElementsAre(0.0, 0.3));
}

TEST(TraceReport, HostsOfOneMachineShareItsClock) {
  control::v1::TraceReply reply;
  for (const int64_t offset : {-40, 30}) {
    trace::Host* host = reply.add_hosts();
    host->set_host("h");
    host->set_clock_offset_ns(offset);
    host->set_clock_error_ns(40);
    const int64_t at = offset < 0 ? 5000 : 5010;
    AddOperation(1, {at, at, at, 0, 0, 0, at + 10, at + 20}, host);
  }
  const auto events = nlohmann::json::parse(RenderChromeTrace(reply))["traceEvents"];
  EXPECT_EQ(events[0]["args"]["name"], "h") << "the offset is not used, so it has no error";
  std::vector<double> begins;
  for (const auto& event : events) {
    if (event["ph"] == "X" && !event.contains("args")) begins.push_back(event["ts"]);
  }
  EXPECT_THAT(begins, ElementsAre(0.0, 0.01));
}

}  // namespace trace_report_test
}  // namespace mccs
