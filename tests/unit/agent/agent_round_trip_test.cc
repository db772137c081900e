// The agent and the controller's server in one process, over gRPC on loopback. Conditions are
// polled (tests/unit/eventually.h).
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "controller/api/operator_view.h"
#include "controller/api/server.h"
#include "controller/store/memory_store.h"
#include "proto/operator.grpc.pb.h"
#include "service/agent/agent.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/eventually.h"

namespace mccs {
namespace agent_round_trip_test {

using testing::HasSubstr;

constexpr CommId kId{0xabcdef};
constexpr std::chrono::milliseconds kTick{20};

// A server with its coordinator, and a thread that ticks.
class Controller {
 public:
  explicit Controller(const std::string& address, int64_t heartbeat_timeout_ns = 2 * kNsPerSec)
      : log_(MakeNullLog()),
        catalog_(*Catalog::Open(&store_, &wall_clock_, log_.get())),
        coordinator_({.heartbeat_timeout_ns = heartbeat_timeout_ns,
                      .version = "test",
                      .wall_clock = &wall_clock_},
                     &clock_, log_.get()) {
    auto server = ControllerServer::Start(address, &coordinator_, catalog_.get());
    if (!server.ok()) {
      status_ = server.status();
      return;
    }
    server_ = *std::move(server);
    ticker_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!stop_changed_.wait_for(lock, kTick, [this] { return stop_; })) server_->Tick();
    });
  }
  ~Controller() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      stop_changed_.notify_all();
    }
    if (ticker_.joinable()) ticker_.join();
  }

  const absl::Status& status() const { return status_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }
  std::string HostState(const std::string& name) {
    return coordinator_.With([&](Coordinator& c) -> std::string {
      const control::v1::ListHostsReply reply = ListHosts(c.state(), c.Now());
      for (const control::v1::HostStatus& host : reply.hosts()) {
        if (host.host().name() == name) return host.state();
      }
      return "";
    });
  }
  // The time from the registration of a ready host to its last message.
  int64_t ReadyFor(const std::string& name) {
    return coordinator_.With([&](Coordinator& c) -> int64_t {
      const auto host = c.registry().hosts().find(name);
      if (host == c.registry().hosts().end() || host->second.state != HostState::kReady) return 0;
      return host->second.received_at - host->second.since;
    });
  }
  // The registration of a host on this machine, with the test's clock.
  std::optional<ClockReading> ClockOf(const std::string& name) {
    return coordinator_.With([&](Coordinator& c) { return c.state().clocks.Read(name, c.Now()); });
  }
  absl::StatusOr<control::v1::CommunicatorDetail> Describe() {
    return coordinator_.With([&](Coordinator& c) {
      return DescribeCommunicator(c.state(), FormatCommId(kId), c.Now());
    });
  }

 private:
  SystemClock clock_;
  SystemWallClock wall_clock_;
  std::unique_ptr<Log> log_;
  MemoryStore store_;
  std::unique_ptr<Catalog> catalog_;
  SharedCoordinator coordinator_;
  absl::Status status_;
  std::unique_ptr<ControllerServer> server_;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread ticker_;
};

class TestAgent {
 public:
  TestAgent(const std::string& controller, const std::string& name, const std::string& rack = "r1")
      : log_(MakeNullLog()),
        agent_({.controller = controller,
                .version = "test",
                .wake = [this] { ++wakes_; },
                .first_retry_ns = 10 * kNsPerMs,
                .last_retry_ns = 50 * kNsPerMs},
               log_.get()) {
    AgentHost host{.inventory = {.name = name, .nics = {}, .gpus = {{0, "0000:1b:00.0"}}},
                   .position = {"p1", rack, name},
                   .peer_endpoint = name + ":7400"};
    started_ = agent_.Start(host);
  }

  Agent* operator->() { return &agent_; }
  const absl::Status& started() const { return started_; }
  int wakes() const { return wakes_; }

 private:
  std::atomic<int> wakes_ = 0;
  std::unique_ptr<Log> log_;
  Agent agent_;
  absl::Status started_;
};

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
  Controller controller("127.0.0.1:0");
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
  ASSERT_TRUE(Eventually([&] { return controller.Describe()->summary().operations() == 5; }));
  const control::v1::CommunicatorDetail detail = *controller.Describe();
  EXPECT_EQ(detail.summary().strategy(), "locality_ring");
  EXPECT_EQ(detail.summary().state(), "active");
  EXPECT_EQ(detail.members(1).host(), "h0");
  ASSERT_EQ(detail.lanes_size(), 1);
  EXPECT_EQ(detail.lanes(0).from(), "h0");
  EXPECT_EQ(detail.lanes(0).local(), "127.0.0.1:61001");

  agent->Ended(kId, "destroyed");
  EXPECT_TRUE(Eventually([&] { return !controller.Describe().ok(); }));
}

TEST(AgentRoundTrip, AgentThatEndsIsLost) {
  Controller controller("127.0.0.1:0");
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
  Controller controller("127.0.0.1:0", kTimeoutNs);
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
  Controller controller("127.0.0.1:0", 300 * kNsPerMs);
  ASSERT_TRUE(controller.status().ok());
  TestAgent agent(controller.address(), "h1");
  ASSERT_TRUE(Eventually([&] { return controller.ClockOf("h1").has_value(); }));
  const ClockReading reading = *controller.ClockOf("h1");
  EXPECT_LE(std::abs(reading.offset_ns), reading.error_ns);
}

TEST(AgentRoundTrip, ANewControllerGetsTheCompleteState) {
  auto first = std::make_unique<Controller>("127.0.0.1:0");
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
  std::unique_ptr<Controller> second;
  ASSERT_TRUE(Eventually([&] {
    second = std::make_unique<Controller>(address);
    return second->status().ok();
  })) << second->status();
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  ASSERT_TRUE(Eventually([&] {
    const auto detail = second->Describe();
    return detail.ok() && detail->summary().operations() == 5;
  }));
  EXPECT_EQ(second->Describe()->summary().strategy(), "locality_ring");
  EXPECT_FALSE(agent->TakeProposal().has_value()) << "a running strategy is not proposed again";
}

TEST(AgentRoundTrip, TwoControllersCannotShareAPort) {
  Controller controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok());
  Controller other(controller.address());
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
  Controller controller("127.0.0.1:0");
  ASSERT_TRUE(controller.status().ok());
  TestAgent first(controller.address(), "h1");
  ASSERT_TRUE(Eventually([&] { return first->connected(); }));
  KeptLog log;
  Agent second({.controller = controller.address(),
                .version = "test",
                .wake = {},
                .first_retry_ns = 10 * kNsPerMs},
               &log);
  AgentHost host{.inventory = {}, .position = {"", "", "h1"}, .peer_endpoint = "elsewhere:1"};
  ASSERT_TRUE(second.Start(host).ok());
  EXPECT_TRUE(Eventually([&] {
    return log.text().find("give the one at elsewhere:1") != std::string::npos;
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
  Controller controller("127.0.0.1:0");
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
      late.Start({.inventory = {}, .position = {"", "", "h1"}, .peer_endpoint = "h1:1"}).ok());
  ASSERT_TRUE(lost.Start({.inventory = {},
                          .position = {"", "", "h2"},
                          .peer_endpoint = "h2:1",
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

// Sends a request like mccsctl, in a thread of its own, so that the test can continue.
class Question {
 public:
  Question(const std::string& controller, const std::string& host)
      : thread_([this, controller, host] {
          const auto stub = control::v1::Operator::NewStub(
              grpc::CreateChannel(controller, grpc::InsecureChannelCredentials()));
          grpc::ClientContext context;
          control::v1::DumpRequest request;
          request.set_host(host);
          status_ = stub->Dump(&context, request, &reply_);
        }) {}
  ~Question() {
    if (thread_.joinable()) thread_.join();
  }

  const grpc::Status& Wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  const state::Daemon& state() const { return reply_.daemon(); }

 private:
  grpc::Status status_;
  control::v1::DumpReply reply_;
  std::thread thread_;
};

TEST(AgentRoundTrip, AStateRequestReachesTheEngineAndReturns) {
  Controller controller("127.0.0.1:0");
  TestAgent agent(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  EXPECT_FALSE(agent->TakeStateRequest().has_value());
  const int wakes = agent.wakes();
  Question request_id(controller.address(), "h0");
  std::optional<uint64_t> asked;
  ASSERT_TRUE(Eventually([&] { return (asked = agent->TakeStateRequest()).has_value(); }));
  EXPECT_TRUE(Eventually([&] { return agent.wakes() > wakes; })) << "an idle engine sleeps";
  EXPECT_FALSE(agent->TakeStateRequest().has_value());
  state::Daemon state;
  state.set_host("h0");
  state.add_communicators()->set_stalled_on("rank 3");
  agent->SendState(*asked, state);
  ASSERT_TRUE(request_id.Wait().ok()) << request_id.Wait().error_message();
  EXPECT_EQ(request_id.state().communicators(0).stalled_on(), "rank 3");
}

TEST(AgentRoundTrip, NamesTheHostThatCannotAnswer) {
  Controller controller("127.0.0.1:0", /*heartbeat_timeout_ns=*/kNsPerSec);
  {
    Question unknown(controller.address(), "h7");
    EXPECT_EQ(unknown.Wait().error_code(), grpc::StatusCode::NOT_FOUND);
  }
  auto agent = std::make_unique<TestAgent>(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return (*agent)->connected(); }));
  Question silent(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return (*agent)->TakeStateRequest().has_value(); }));
  Question lost(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return (*agent)->TakeStateRequest().has_value(); }));
  agent.reset();
  EXPECT_EQ(lost.Wait().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(silent.Wait().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

// Calls `mccsctl trace communicator` in a thread of its own.
class TraceCall {
 public:
  explicit TraceCall(const std::string& controller)
      : thread_([this, controller] {
          const auto stub = control::v1::Operator::NewStub(
              grpc::CreateChannel(controller, grpc::InsecureChannelCredentials()));
          control::v1::TraceRequest request;
          request.set_id(FormatCommId(kId));
          request.set_operations(7);
          status_ = stub->TraceCommunicator(&context_, request, &reply_);
        }) {}
  ~TraceCall() { Wait(); }
  void Cancel() { context_.TryCancel(); }
  const grpc::Status& Wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  const control::v1::TraceReply& reply() const { return reply_; }

 private:
  grpc::ClientContext context_;
  grpc::Status status_;
  control::v1::TraceReply reply_;
  std::thread thread_;
};

TEST(AgentRoundTrip, ATraceReachesTheEngineAndReturns) {
  Controller controller("127.0.0.1:0");
  TestAgent agent(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  {
    TraceCall unknown(controller.address());
    EXPECT_EQ(unknown.Wait().error_code(), grpc::StatusCode::NOT_FOUND);
  }
  agent->Announce(MakeAnnounce(kId.value(), {"h0"}));
  ASSERT_TRUE(Eventually([&] { return controller.Describe().ok(); }));
  TraceCall call(controller.address());
  std::optional<TraceOrder> order;
  ASSERT_TRUE(Eventually([&] { return (order = agent->TakeTraceOrder()).has_value(); }));
  EXPECT_EQ(order->id, kId);
  EXPECT_EQ(order->operations, 7u);
  EXPECT_FALSE(order->stop);
  trace::Host trace;
  trace.add_operations()->set_number(3);
  agent->SendTrace(order->request_id, trace);
  ASSERT_TRUE(call.Wait().ok()) << call.Wait().error_message();
  EXPECT_EQ(call.reply().id(), FormatCommId(kId));
  EXPECT_EQ(call.reply().hosts(0).host(), "h0");
  EXPECT_EQ(call.reply().hosts(0).operations(0).number(), 3u);
}

TEST(AgentRoundTrip, ACancelledTraceEndsOnTheHosts) {
  Controller controller("127.0.0.1:0");
  TestAgent agent(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  agent->Announce(MakeAnnounce(kId.value(), {"h0"}));
  ASSERT_TRUE(Eventually([&] { return controller.Describe().ok(); }));
  TraceCall call(controller.address());
  std::optional<TraceOrder> order;
  ASSERT_TRUE(Eventually([&] { return (order = agent->TakeTraceOrder()).has_value(); }));
  const uint64_t request_id = order->request_id;
  call.Cancel();
  ASSERT_TRUE(Eventually([&] { return (order = agent->TakeTraceOrder()).has_value(); }));
  EXPECT_TRUE(order->stop);
  EXPECT_EQ(order->request_id, request_id);
  EXPECT_EQ(call.Wait().error_code(), grpc::StatusCode::CANCELLED);
  TraceCall again(controller.address());
  ASSERT_TRUE(Eventually([&] { return (order = agent->TakeTraceOrder()).has_value(); }));
  agent->SendTrace(order->request_id, {});
  EXPECT_TRUE(again.Wait().ok()) << "the first one runs no more";
}

TEST(AgentRoundTrip, AStoppingControllerAnswersOpenRequests) {
  auto controller = std::make_unique<Controller>("127.0.0.1:0");
  TestAgent agent(controller->address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  Question request_id(controller->address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->TakeStateRequest().has_value(); }));
  controller.reset();
  EXPECT_FALSE(request_id.Wait().ok());
}

}  // namespace agent_round_trip_test
}  // namespace mccs
