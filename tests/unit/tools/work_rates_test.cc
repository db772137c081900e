#include "tools/mccsctl/work_rates.h"

#include <gtest/gtest.h>

#include <string>

namespace mccs {
namespace work_rates_test {

constexpr double kMs = 1e6;  // ns

// A communicator of four ranks on h0 and h1.
class WorkRatesTest : public testing::Test {
 protected:
  static control::v1::HostWork& HostOf(control::v1::ListWorkReply& reply, const std::string& host) {
    if (reply.communicators_size() == 0) {
      control::v1::CommunicatorWork* work = reply.add_communicators();
      work->set_id("a");
      work->set_ranks(4);
    }
    control::v1::CommunicatorWork& work = *reply.mutable_communicators(0);
    for (control::v1::HostWork& known : *work.mutable_hosts()) {
      if (known.host() == host) return known;
    }
    work.add_hosts()->set_host(host);
    return *work.mutable_hosts(work.hosts_size() - 1);
  }
  static void Set(control::v1::ListWorkReply& reply, const std::string& host, double at_ms,
                  const std::string& kind, uint64_t operations, uint64_t bytes) {
    control::v1::HostWork& work = HostOf(reply, host);
    work.set_measured_ns(static_cast<int64_t>(at_ms * kMs));
    agent::v1::KindWork* out = work.add_work();
    out->set_kind(kind);
    out->set_operations(operations);
    out->set_bytes(bytes);
  }
  control::v1::CommunicatorRates Rates(double seconds = 1) {
    return ComputeRates(before_, after_, seconds).communicators(0);
  }

  control::v1::ListWorkReply before_, after_;
};

TEST_F(WorkRatesTest, BandwidthsAreThoseOfNcclTests) {
  struct Case {
    const char* kind;
    double alg, bus;  // for one byte of count × size, four ranks
  };
  for (const Case& c :
       {Case{"all_reduce", 1, 1.5}, Case{"all_gather", 4, 3}, Case{"reduce_scatter", 4, 3},
        Case{"all_to_all", 4, 3}, Case{"gather", 4, 3}, Case{"scatter", 4, 3},
        Case{"broadcast", 1, 1}, Case{"reduce", 1, 1}, Case{"send", 1, 1}, Case{"put", 1, 1},
        Case{"recv", 0, 0}, Case{"signal", 0, 0}}) {
    SCOPED_TRACE(c.kind);
    before_.Clear();
    after_.Clear();
    Set(before_, "h0", 0, c.kind, 10, 1000);
    Set(after_, "h0", 500, c.kind, 15, 2000);
    EXPECT_DOUBLE_EQ(Rates().algbw(), 2000 * c.alg);
    EXPECT_DOUBLE_EQ(Rates().busbw(), 2000 * c.bus);
  }
}

TEST_F(WorkRatesTest, ACollectiveCountsOnceAndMessagesAddUp) {
  for (const char* host : {"h0", "h1"}) {
    Set(before_, host, 0, "all_reduce", 0, 0);
    Set(after_, host, 1000, "all_reduce", 10, 10'000);
    Set(before_, host, 0, "send", 0, 0);
    Set(after_, host, 1000, "send", 4, 400);
    Set(before_, host, 0, "recv", 0, 0);
    Set(after_, host, 1000, "recv", 4, 400);
  }
  EXPECT_DOUBLE_EQ(Rates().algbw(), 10'000 + 800);
  EXPECT_DOUBLE_EQ(Rates().operations_per_second(), 10 + 8);
}

// In a cluster of thousands of hosts.
TEST_F(WorkRatesTest, MeasuresTimeBetweenReportsThatAreFarApart) {
  after_.set_report_every_ns(5'000'000'000);
  Set(before_, "h0", 100, "all_reduce", 0, 0);
  Set(after_, "h0", 5100, "all_reduce", 5, 5000);
  EXPECT_DOUBLE_EQ(Rates().algbw(), 1000);
}

// Otherwise busy hosts without a new report would show no rate.
TEST_F(WorkRatesTest, SamplesAreFurtherApartThanReports) {
  EXPECT_DOUBLE_EQ(SecondsToWait(1, 0), 1) << "a controller that sends no interval";
  EXPECT_DOUBLE_EQ(SecondsToWait(0.1, 500'000'000), 0.75);
  EXPECT_DOUBLE_EQ(SecondsToWait(1, 5'000'000'000), 5.25);
  EXPECT_DOUBLE_EQ(SecondsToWait(10, 5'000'000'000), 10);
}

// Daemons report every 0.5 s, unsynchronized with mccsctl: two samples taken 1 s apart may cover
// 0.6 s of work.
TEST_F(WorkRatesTest, MeasuresTimeOnTheReportingHostsClock) {
  Set(before_, "h0", 100'000, "all_reduce", 0, 0);
  Set(after_, "h0", 100'600, "all_reduce", 6, 600);
  EXPECT_DOUBLE_EQ(Rates().algbw(), 1000);
}

TEST_F(WorkRatesTest, HostWithoutReportHasRateZero) {
  Set(before_, "h0", 100, "all_reduce", 5, 500);
  Set(after_, "h0", 100, "all_reduce", 5, 500);
  EXPECT_EQ(Rates().busbw(), 0);
}

TEST_F(WorkRatesTest, CountsWorkAfterIdleTimeInThisInterval) {
  Set(before_, "h0", 0, "all_reduce", 5, 500);
  Set(after_, "h0", 600'000, "all_reduce", 6, 2500);
  EXPECT_DOUBLE_EQ(Rates().algbw(), 2000);
}

TEST_F(WorkRatesTest, RestartOfADaemonGivesNoNegativeRate) {
  Set(before_, "h0", 5000, "all_reduce", 50, 5000);
  Set(after_, "h0", 5500, "all_reduce", 1, 100);
  EXPECT_EQ(Rates().algbw(), 0);
}

TEST_F(WorkRatesTest, SortsByBandwidthAndIncludesNewCommunicators) {
  for (int i = 0; i < 3; ++i) {
    control::v1::CommunicatorWork work;
    work.set_id(std::string(1, static_cast<char>('a' + i)));
    work.set_ranks(2);
    work.add_hosts()->set_host("h0");
    agent::v1::KindWork* kind = work.mutable_hosts(0)->add_work();
    kind->set_kind("all_reduce");
    if (i < 2) *before_.add_communicators() = work;
    work.mutable_hosts(0)->set_measured_ns(1'000'000'000);
    kind->set_operations(1);
    kind->set_bytes(static_cast<uint64_t>(i) * 100);
    work.add_links("l0");
    *after_.add_communicators() = work;
  }
  const control::v1::TopRates top = ComputeRates(before_, after_, 1);
  ASSERT_EQ(top.communicators_size(), 3);
  EXPECT_EQ(top.communicators(0).id(), "b");
  EXPECT_EQ(top.communicators(1).id(), "a");
  EXPECT_EQ(top.communicators(2).id(), "c") << "no earlier sample";
  EXPECT_EQ(top.communicators(2).links_size(), 1);
}

control::v1::ExplainedFlow& AddFlow(control::v1::Explanation& explanation, double at_ms,
                                    uint64_t bytes, double waited_ms) {
  control::v1::ExplainedFlow* flow = explanation.add_flows();
  flow->set_from("h0");
  flow->set_to("h1");
  flow->set_measured_ns(static_cast<int64_t>(at_ms * kMs));
  flow->set_payload_bytes(bytes);
  flow->set_waited_for_rate_ns(static_cast<int64_t>(waited_ms * kMs));
  return *flow;
}

TEST(FlowRates, AreComputedBetweenTwoReports) {
  control::v1::Explanation before, after;
  AddFlow(before, 100, 1000, 7);
  AddFlow(after, 600, 2000, 57);
  AddFlow(after, 600, 9000, 3).set_to("h2");  // new
  const control::v1::Explanation rated = WithRates(before, after, 1);
  EXPECT_DOUBLE_EQ(rated.flows(0).measured_bps(), 8 * 1000 / 0.5);
  EXPECT_EQ(rated.flows(0).waited_for_rate_ns(), 50 * kMs);
  EXPECT_DOUBLE_EQ(rated.flows(1).measured_bps(), 0);
  EXPECT_DOUBLE_EQ(rated.seconds(), 1);
  // A restarted daemon counts from 0.
  EXPECT_DOUBLE_EQ(WithRates(after, before, 1).flows(0).measured_bps(), 0);
}

}  // namespace work_rates_test
}  // namespace mccs
