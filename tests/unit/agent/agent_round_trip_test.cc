// The agent and the controller's server in one process, over gRPC on loopback. Conditions are
// polled (tests/unit/eventually.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/log.h"
#include "tests/unit/agent/loopback_controller.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/eventually.h"

namespace mccs {
namespace agent_round_trip_test {

using testing::HasSubstr;

constexpr CommId kId{0xabcdef};

agent::v1::Announce Info() {
  agent::v1::Announce info;
  info.set_comm_id(kId.value());
  info.set_name("job");
  info.set_tenant("uid 1000");
  for (int rank : {0, 1}) {
    info.add_hosts(rank == 0 ? "h1" : "h0");
    cluster::Member* member = info.add_members();
    member->set_rank(rank);
    member->set_host(info.hosts(rank));
    member->set_gpu("0000:1b:00.0");
    member->set_process(11 + rank);
  }
  Strategy strategy;
  strategy.channels = {{{HostIndex(0), HostIndex(1)}, {}}};
  strategy.lanes = {.slots = 4, .slot_bytes = 1 << 16};
  strategy.origin = "daemon default";
  ToProto(strategy, info.mutable_strategy());
  return info;
}

agent::v1::Report ReportOf(Epoch epoch) {
  agent::v1::Report report = ReportingLane(kId.value(), 1, 0, 61001).reports().complete(0);
  report.set_epoch(epoch.value());
  report.set_operations(5);
  report.set_bytes(4096);
  report.mutable_lanes(0)->set_local("127.0.0.1:61001");
  return report;
}

TEST(AgentRoundTrip, ACommunicatorIsAnnouncedAnsweredReportedAndEnded) {
  LoopbackController controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok()) << controller.status();
  TestAgent agent(controller.address(), "h1");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  EXPECT_EQ(controller.HostState("h1"), "ready");
  EXPECT_TRUE(Eventually([&] { return agent.wakes() > 0; }))
      << "the engine is woken for the connection";
  const int wakes = agent.wakes();

  agent->Announce(Info());
  std::optional<Proposal> proposal;
  ASSERT_TRUE(Eventually([&] { return (proposal = agent->TakeProposal()).has_value(); }));
  EXPECT_TRUE(Eventually([&] { return agent.wakes() > wakes; }))
      << "the engine is woken for the proposal";
  EXPECT_EQ(proposal->strategy.origin, "locality_ring");
  EXPECT_EQ(proposal->strategy.epoch, Epoch(2));
  // h0's position is unknown: it precedes all racks.
  EXPECT_EQ(proposal->strategy.channels[0].ring,
            (std::vector<HostIndex>{HostIndex(1), HostIndex(0)}));
  ASSERT_EQ(proposal->strategy.channels[0].source_ports.size(), 2u);
  EXPECT_NE(proposal->strategy.channels[0].source_ports[0],
            proposal->strategy.channels[0].source_ports[1]);
  EXPECT_FALSE(agent->TakeProposal().has_value());

  agent->Report(ReportOf(proposal->strategy.epoch));
  ASSERT_TRUE(Eventually([&] { return controller.Describe(kId)->summary().operations() == 5; }));
  const control::v1::CommunicatorDetail detail = *controller.Describe(kId);
  EXPECT_EQ(detail.summary().strategy(), "locality_ring");
  EXPECT_EQ(detail.summary().state(), "active");
  EXPECT_EQ(detail.members(1).host(), "h0");
  ASSERT_EQ(detail.lanes_size(), 1);
  EXPECT_EQ(detail.lanes(0).from(), "h0");
  EXPECT_EQ(detail.lanes(0).local(), "127.0.0.1:61001");

  agent->Ended(kId, "destroyed");
  EXPECT_TRUE(Eventually([&] { return !controller.Describe(kId).ok(); }));
}

TEST(AgentRoundTrip, TheControllerShowsTheConditionOfTheGpusAlsoAfterARestart) {
  auto controller = std::make_unique<LoopbackController>("127.0.0.1:0");
  const std::string address = controller->address();
  TestAgent agent(address, "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  const auto problems = [&] {
    const control::v1::ListHostsReply hosts = controller->Hosts();
    return hosts.hosts_size() == 1 ? hosts.hosts(0).host().gpu_survey().problems_size() : 0;
  };
  EXPECT_EQ(problems(), 0);
  agent::v1::GpuSurvey survey;
  survey.add_problems("GPU 0: MIG is on");
  agent->SetGpuSurvey(survey);
  EXPECT_TRUE(Eventually([&] { return problems() == 1; }));
  controller.reset();
  controller = std::make_unique<LoopbackController>(address);
  EXPECT_TRUE(Eventually([&] { return problems() == 1; })) << "a part of the registration";
  agent->SetGpuSurvey({});
  EXPECT_TRUE(Eventually([&] { return problems() == 0; })) << "the operator has repaired it";
}

TEST(AgentRoundTrip, AgentThatEndsIsLost) {
  LoopbackController controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok());
  {
    TestAgent agent(controller.address(), "h1");
    ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  }
  EXPECT_TRUE(
      Eventually([&] { return controller.HostState("h1") == "lost: its connection closed"; }));
}

TEST(AgentRoundTrip, HeartbeatsKeepTheStreamOpen) {
  constexpr int64_t kTimeoutNs = 300 * kNsPerMs;
  LoopbackController controller("127.0.0.1:0", kTimeoutNs);
  ASSERT_TRUE(controller.status().ok());
  TestAgent agent(controller.address(), "h1");
  // The engine is woken shortly after connected() has become true.
  ASSERT_TRUE(Eventually([&] { return agent->connected() && agent.wakes() > 0; }));
  const int wakes = agent.wakes();
  EXPECT_TRUE(Eventually([&] { return controller.ReadyFor("h1") > 3 * kTimeoutNs; }));
  EXPECT_TRUE(agent->connected());
  EXPECT_EQ(agent.wakes(), wakes) << "connected() did not change meanwhile";
}

TEST(AgentRoundTrip, HeartbeatsCompareTheClocks) {
  LoopbackController controller("127.0.0.1:0", 300 * kNsPerMs);
  ASSERT_TRUE(controller.status().ok());
  TestAgent agent(controller.address(), "h1");
  ASSERT_TRUE(Eventually([&] { return controller.ClockOf("h1").has_value(); }));
  const ClockReading reading = *controller.ClockOf("h1");
  EXPECT_LE(std::abs(reading.offset_ns), reading.error_ns);
}

TEST(AgentRoundTrip, ANewControllerGetsTheCompleteState) {
  auto first = std::make_unique<LoopbackController>("127.0.0.1:0");
  ASSERT_TRUE(first->status().ok());
  const std::string address = first->address();
  TestAgent agent(address, "h1");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  agent->Announce(Info());
  std::optional<Proposal> proposal;
  ASSERT_TRUE(Eventually([&] { return (proposal = agent->TakeProposal()).has_value(); }));
  agent->Report(ReportOf(proposal->strategy.epoch));

  first.reset();
  ASSERT_TRUE(Eventually([&] { return !agent->connected(); }));
  std::unique_ptr<LoopbackController> second;
  ASSERT_TRUE(Eventually([&] {
    second = std::make_unique<LoopbackController>(address);
    return second->status().ok();
  })) << second->status();
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  ASSERT_TRUE(Eventually([&] {
    const auto detail = second->Describe(kId);
    return detail.ok() && detail->summary().operations() == 5;
  }));
  EXPECT_EQ(second->Describe(kId)->summary().strategy(), "locality_ring");
  EXPECT_FALSE(agent->TakeProposal().has_value()) << "a running strategy is not proposed again";
}

TEST(AgentRoundTrip, TwoControllersCannotShareAPort) {
  LoopbackController controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok());
  LoopbackController other(controller.address());
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(other.status().message(), HasSubstr(controller.address()));
}

class KeptLog final : public Log {
 public:
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 protected:
  bool Enabled(LogLevel /*level*/) const override { return true; }
  void Write(LogLevel /*level*/, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    text_ += std::string(line) + "\n";
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

TEST(AgentRoundTrip, RejectsTheSecondDaemonOfAName) {
  LoopbackController controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok());
  TestAgent first(controller.address(), "h1");
  ASSERT_TRUE(Eventually([&] { return first->connected(); }));
  KeptLog log;
  Agent second({.controller = controller.address(),
                .version = "test",
                .wake = {},
                .first_retry_ns = 10 * kNsPerMs},
               &log);
  AgentHost host{.inventory = {}, .position = {"", "", "h1"}, .peer_endpoint = "10.0.9.9:1"};
  ASSERT_TRUE(second.Start(host).ok());
  EXPECT_TRUE(Eventually([&] {
    return log.text().find("give the one at 10.0.9.9:1") != std::string::npos;
  })) << log.text();
  EXPECT_FALSE(second.connected());
  EXPECT_TRUE(first->connected());
  EXPECT_EQ(controller.HostState("h1"), "ready");
}

class ClockOf1970 final : public WallClock {
 public:
  UnixNs Now() const override { return kNsPerSec; }
};

TEST(AgentRoundTrip, RejectsWrongClockAndWrongTopologyWithAReason) {
  LoopbackController controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok());
  const std::unique_ptr<Log> log = MakeNullLog();
  KeptLog log_of_lost;
  const ClockOf1970 clock;
  Agent late({.controller = controller.address(),
              .version = "test",
              .wake = {},
              .first_retry_ns = 10 * kNsPerMs,
              .wall_clock = &clock},
             log.get());
  Agent lost({.controller = controller.address(),
              .version = "test",
              .wake = {},
              .first_retry_ns = 10 * kNsPerMs},
             &log_of_lost);
  ASSERT_TRUE(
      late.Start({.inventory = {}, .position = {"", "", "h1"}, .peer_endpoint = "10.0.0.1:1"})
          .ok());
  ASSERT_TRUE(lost.Start({.inventory = {},
                          .position = {"", "", "h2"},
                          .peer_endpoint = "10.0.0.2:1",
                          .topology = "elsewhere"})
                  .ok());
  EXPECT_TRUE(Eventually(
      [&] { return controller.HostState("h1").starts_with("rejected: the clock of host h1 is"); }));
  EXPECT_TRUE(Eventually([&] {
    return controller.HostState("h2").starts_with(
        "rejected: mccsd on h2 is configured with `topology: elsewhere`");
  }));
  EXPECT_FALSE(late.connected());
  // The daemon's log contains it too.
  const auto rejection = [&] { return log_of_lost.text().find("but there is no such Topology"); };
  EXPECT_TRUE(Eventually([&] { return rejection() != std::string::npos; })) << log_of_lost.text();
  EXPECT_EQ(log_of_lost.text().find("CANCELLED"), std::string::npos) << log_of_lost.text();
}

TEST(AgentRoundTrip, WithoutAControllerNothingBlocksAndTheAgentStopsAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  {
    TestAgent agent("127.0.0.1:1", "h1");
    for (int i = 0; i < 1000; ++i) {
      agent->Announce(Info());
      agent->Report(ReportOf(Epoch(1)));
      EXPECT_FALSE(agent->connected());
      EXPECT_FALSE(agent->TakeProposal().has_value());
    }
    agent->Ended(kId, "destroyed");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(AgentRoundTrip, AnAgentWithoutNameOrControllerIsRejected) {
  EXPECT_EQ(TestAgent("", "h1").started().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TestAgent("127.0.0.1:1", "").started().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace agent_round_trip_test
}  // namespace mccs
