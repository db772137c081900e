// Operators' requests that the controller passes to daemons (state dumps, traces), with the agent
// and the controller's server in one process, over gRPC on loopback.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "proto/operator.grpc.pb.h"
#include "tests/unit/agent/loopback_controller.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/eventually.h"

namespace mccs {
namespace agent_requests_test {

constexpr CommId kId{0xabcdef};

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

// Heartbeats, which wake the engine too, are minutes apart.
TEST(AgentRequests, AFoundRendezvousWakesTheEngine) {
  LoopbackController controller("127.0.0.1:0", 3600 * kNsPerSec);
  TestAgent opener(controller.address(), "h0", "r1", "10.0.0.1:7400");
  TestAgent seeker(controller.address(), "h1");
  ASSERT_TRUE(Eventually([&] { return opener->connected() && seeker->connected(); }));
  agent::v1::NamedRendezvous named;
  named.add_sought(7);
  seeker->SetNamedRendezvous(named);
  const int wakes = seeker.wakes();
  named.Clear();
  named.add_open(7);
  opener->SetNamedRendezvous(named);
  std::optional<FoundRendezvous> found;
  ASSERT_TRUE(Eventually([&] { return (found = seeker->TakeFoundRendezvous()).has_value(); }));
  EXPECT_EQ(found->host, "h0");
  EXPECT_TRUE(Eventually([&] { return seeker.wakes() > wakes; })) << "an idle engine sleeps";
}

TEST(AgentRequests, AStateRequestReachesTheEngineAndReturns) {
  LoopbackController controller("127.0.0.1:0");
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

TEST(AgentRequests, NamesTheHostThatCannotAnswer) {
  LoopbackController controller("127.0.0.1:0", /*heartbeat_timeout_ns=*/kNsPerSec);
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

TEST(AgentRequests, ATraceReachesTheEngineAndReturns) {
  LoopbackController controller("127.0.0.1:0");
  TestAgent agent(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  {
    TraceCall unknown(controller.address());
    EXPECT_EQ(unknown.Wait().error_code(), grpc::StatusCode::NOT_FOUND);
  }
  agent->Announce(MakeAnnounce(kId.value(), {"h0"}));
  ASSERT_TRUE(Eventually([&] { return controller.Describe(kId).ok(); }));
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

TEST(AgentRequests, ACancelledTraceEndsOnTheHosts) {
  LoopbackController controller("127.0.0.1:0");
  TestAgent agent(controller.address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  agent->Announce(MakeAnnounce(kId.value(), {"h0"}));
  ASSERT_TRUE(Eventually([&] { return controller.Describe(kId).ok(); }));
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

TEST(AgentRequests, AStoppingControllerAnswersOpenRequests) {
  auto controller = std::make_unique<LoopbackController>("127.0.0.1:0");
  TestAgent agent(controller->address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  Question request_id(controller->address(), "h0");
  ASSERT_TRUE(Eventually([&] { return agent->TakeStateRequest().has_value(); }));
  controller.reset();
  EXPECT_FALSE(request_id.Wait().ok());
}

// Regression: each controller numbered its requests from 1.
TEST(AgentRequests, LateAnswersToAnEarlierControllerAnswerNoRequest) {
  auto first = std::make_unique<LoopbackController>("127.0.0.1:0");
  const std::string address = first->address();
  TestAgent agent(address, "h0");
  ASSERT_TRUE(Eventually([&] { return agent->connected(); }));
  agent->Announce(MakeAnnounce(kId.value(), {"h0"}));
  ASSERT_TRUE(Eventually([&] { return first->Describe(kId).ok(); }));
  std::optional<TraceOrder> early_order;
  std::optional<uint64_t> early_request;
  {
    TraceCall trace(address);
    Question dump(address, "h0");
    ASSERT_TRUE(Eventually([&] { return (early_order = agent->TakeTraceOrder()).has_value(); }));
    ASSERT_TRUE(
        Eventually([&] { return (early_request = agent->TakeStateRequest()).has_value(); }));
    first.reset();
    EXPECT_FALSE(trace.Wait().ok());
    EXPECT_FALSE(dump.Wait().ok());
  }
  std::unique_ptr<LoopbackController> second;
  ASSERT_TRUE(Eventually([&] {
    second = std::make_unique<LoopbackController>(address);
    return second->status().ok() && Eventually([&] { return agent->connected(); });
  }));
  ASSERT_TRUE(Eventually([&] { return second->Describe(kId).ok(); }));

  TraceCall trace(address);
  Question dump(address, "h0");
  std::optional<TraceOrder> order;
  std::optional<uint64_t> request;
  ASSERT_TRUE(Eventually([&] { return (order = agent->TakeTraceOrder()).has_value(); }));
  ASSERT_TRUE(Eventually([&] { return (request = agent->TakeStateRequest()).has_value(); }));
  trace::Host late, current;
  late.add_operations()->set_number(1);
  current.add_operations()->set_number(2);
  agent->SendTrace(early_order->request_id, late);
  agent->SendTrace(order->request_id, current);
  state::Daemon state;
  state.set_host("late");
  agent->SendState(*early_request, state);
  state.set_host("current");
  agent->SendState(*request, state);
  ASSERT_TRUE(trace.Wait().ok()) << trace.Wait().error_message();
  EXPECT_EQ(trace.reply().hosts(0).operations(0).number(), 2u);
  ASSERT_TRUE(dump.Wait().ok()) << dump.Wait().error_message();
  EXPECT_EQ(dump.state().host(), "current");
}

}  // namespace agent_requests_test
}  // namespace mccs
