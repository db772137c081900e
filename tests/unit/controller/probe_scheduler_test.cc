#include "controller/measurement/probe_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace probe_scheduler_test {

using testing::ElementsAre;
using testing::IsEmpty;

FiveTuple Flow(uint16_t port) {
  return {.source_address = 0x0a000001,
          .destination_address = 0x0a000101,
          .protocol = kProtocolTcp,
          .source_port = port,
          .destination_port = 7400};
}

ProbeTarget Target(uint16_t port, bool in_use = false, const std::string& host = "h0") {
  return {.host = host, .flow = Flow(port), .switches = 3, .in_use = in_use};
}

class ProbeSchedulerTest : public testing::Test {
 protected:
  ProbeSchedulerTest() { Register("h0", AgentKey(1)); }

  void Register(const std::string& host, AgentKey agent) {
    ASSERT_TRUE(registry_.Register(agent, Registration(MakeHost(host)).registration(), now_).ok());
  }
  // The ports in the current request, and the request's number.
  std::vector<uint32_t> Asked() {
    std::vector<uint32_t> ports;
    for (const auto& [agent, probe] : book_.TakeDueProbes(registry_, now_)) {
      question_ = probe.request_id();
      for (const agent::v1::ProbeFlow& flow : probe.flows()) ports.push_back(flow.source_port());
    }
    return ports;
  }
  // Answers that all flows of the last request pass this switch.
  bool Answer(const std::string& hop, size_t flows, const std::string& why_not = "") {
    agent::v1::Probed probed;
    probed.set_request_id(question_);
    for (size_t i = 0; i < flows; ++i) {
      agent::v1::ProbedFlow* flow = probed.add_flows();
      if (why_not.empty()) flow->add_hops(hop);
      flow->set_error(why_not);
    }
    return book_.Handle("h0", probed, now_);
  }
  std::vector<uint32_t> Known(uint16_t port) const {
    const Hops* hops = book_.known()->Find(Flow(port));
    return hops != nullptr ? *hops : Hops();
  }
  void Pass(int64_t ns) { now_ += ns; }

  MonotonicNs now_ = 1000 * kNsPerSec;
  Registry registry_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  ProbeScheduler book_{log_.get(), 1};
  uint64_t question_ = 0;
};

TEST_F(ProbeSchedulerTest, ProbesATargetOnce) {
  EXPECT_THAT(Asked(), IsEmpty());
  book_.SetTargets({Target(61000), Target(61001, true)}, now_);
  EXPECT_THAT(Asked(), ElementsAre(61000, 61001));
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_TRUE(Answer("10.255.0.3", 2));
  EXPECT_THAT(Known(61000), ElementsAre(0x0aff0003));
  EXPECT_THAT(Asked(), IsEmpty());
}

TEST_F(ProbeSchedulerTest, OneRequestPerDaemonWithATimeout) {
  std::vector<ProbeTarget> targets;
  for (uint16_t i = 0; i < ProbeScheduler::kMaxFlowsPerRequest + 5; ++i)
    targets.push_back(Target(static_cast<uint16_t>(61000 + i)));
  book_.SetTargets(targets, now_);
  EXPECT_EQ(Asked().size(), ProbeScheduler::kMaxFlowsPerRequest);
  EXPECT_THAT(Asked(), IsEmpty());
  Answer("10.255.0.3", ProbeScheduler::kMaxFlowsPerRequest);
  EXPECT_EQ(Asked().size(), 5u);
}

TEST_F(ProbeSchedulerTest, IgnoresAnswersWithoutARequest) {
  book_.SetTargets({Target(61000)}, now_);
  Asked();
  ++question_;
  EXPECT_FALSE(Answer("10.255.0.3", 1));
  --question_;
  EXPECT_FALSE(Answer("10.255.0.3", 2));
  EXPECT_FALSE(Answer("10.255.0.3", 1)) << "it was answered";
  Pass(ProbeScheduler::kRetryNs);
  Asked();
  agent::v1::Probed endless;
  endless.set_request_id(question_);
  endless.add_flows();
  for (int i = 0; i < 1000; ++i) endless.mutable_flows(0)->add_hops("10.255.0.3");
  EXPECT_FALSE(book_.Handle("h0", endless, now_));
  agent::v1::Probed another;
  another.set_request_id(question_);
  EXPECT_FALSE(book_.Handle("h9", another, now_));
  EXPECT_THAT(Known(61000), IsEmpty());
}

TEST_F(ProbeSchedulerTest, RetriesFailedProbesLater) {
  book_.SetTargets({Target(61000)}, now_);
  Asked();
  EXPECT_FALSE(Answer("", 1, "mccsd may not"));
  EXPECT_THAT(Asked(), IsEmpty());
  Pass(ProbeScheduler::kRetryNs);
  EXPECT_THAT(Asked(), ElementsAre(61000));
  Pass(ProbeScheduler::kRetryNs);  // no answer
  EXPECT_THAT(Asked(), ElementsAre(61000));
  book_.OnHostLost("h0");
  Pass(ProbeScheduler::kRetryNs);
  EXPECT_THAT(Asked(), ElementsAre(61000));
}

TEST_F(ProbeSchedulerTest, RefreshesResultsInUseAndKeepsOldOnesMeanwhile) {
  book_.SetTargets({Target(61000), Target(61001, true)}, now_);
  Asked();
  Answer("10.255.0.3", 2);
  Pass(ProbeScheduler::kRefreshNs);
  EXPECT_THAT(Asked(), ElementsAre(61001));
  EXPECT_THAT(Known(61001), ElementsAre(0x0aff0003));
  EXPECT_FALSE(Answer("10.255.0.3", 1)) << "no news";
  Pass(ProbeScheduler::kRefreshNs);
  EXPECT_THAT(Asked(), ElementsAre(61001));
  EXPECT_TRUE(Answer("10.255.0.4", 1));
  EXPECT_THAT(Known(61001), ElementsAre(0x0aff0004));
}

TEST_F(ProbeSchedulerTest, LinkChangeDropsResultsOfUnusedPorts) {
  book_.SetTargets({Target(61000), Target(61001, true)}, now_);
  Asked();
  Answer("10.255.0.3", 2);
  book_.LinksChanged();
  EXPECT_THAT(Known(61000), IsEmpty());
  EXPECT_THAT(Known(61001), ElementsAre(0x0aff0003));
  EXPECT_THAT(Asked(), ElementsAre(61000, 61001));
  book_.LinksChanged();
  EXPECT_FALSE(Answer("10.255.0.4", 2)) << "it may be about the links as they were";
}

TEST_F(ProbeSchedulerTest, BrokenConnectionsRefreshTheirHostsResults) {
  book_.SetTargets({Target(61000), Target(61001, true)}, now_);
  Asked();
  Answer("10.255.0.3", 2);
  book_.LinksChanged("h9");
  EXPECT_THAT(Asked(), IsEmpty());
  book_.LinksChanged("h0");
  EXPECT_THAT(Asked(), ElementsAre(61001));
}

TEST_F(ProbeSchedulerTest, DropsResultsWithoutATarget) {
  book_.SetTargets({Target(61000)}, now_);
  Asked();
  Answer("10.255.0.3", 1);
  book_.SetTargets({}, now_);
  EXPECT_THAT(Known(61000), ElementsAre(0x0aff0003));
  Pass(ProbeScheduler::kExpireNs + 1);
  book_.SetTargets({}, now_);
  EXPECT_THAT(Known(61000), IsEmpty());
}

TEST_F(ProbeSchedulerTest, DoesNotProbeFromADisconnectedHost) {
  book_.SetTargets({Target(61000, false, "h1")}, now_);
  EXPECT_THAT(Asked(), IsEmpty());
  Register("h1", AgentKey(2));
  EXPECT_THAT(Asked(), ElementsAre(61000));
}

}  // namespace probe_scheduler_test
}  // namespace mccs
