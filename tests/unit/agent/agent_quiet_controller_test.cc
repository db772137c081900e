// The agent and a controller that accepts it, sends one message and then nothing, not even
// heartbeats. Over gRPC on loopback; conditions are polled
// (tests/unit/eventually.h).
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "proto/agent.grpc.pb.h"
#include "service/agent/agent.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/eventually.h"

namespace mccs {
namespace agent_quiet_controller_test {

constexpr CommId kId{0xabcdef};

class QuietHub final : public agent::v1::AgentHub::Service {
 public:
  struct Options {
    int64_t heartbeat_timeout_ns = 600 * kNsPerSec;  // sent to agents
    std::optional<agent::v1::ToAgent> order = {};
    bool reads = true;  // the messages after the registration
    int64_t report_every_ns = 0;
  };

  explicit QuietHub(Options options) : options_(std::move(options)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~QuietHub() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int streams() const { return streams_; }

  grpc::Status Attach(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<agent::v1::ToAgent, agent::v1::FromAgent>* stream) override {
    agent::v1::FromAgent message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    ++streams_;
    agent::v1::ToAgent welcome;
    welcome.mutable_registered()->set_heartbeat_every_ns(options_.heartbeat_timeout_ns / 3);
    welcome.mutable_registered()->set_heartbeat_timeout_ns(options_.heartbeat_timeout_ns);
    welcome.mutable_registered()->set_report_every_ns(options_.report_every_ns);
    stream->Write(welcome);
    if (options_.order.has_value()) stream->Write(*options_.order);
    while (options_.reads && stream->Read(&message)) {
    }
    while (!Eventually([&] { return context->IsCancelled(); })) {
    }
    return grpc::Status::OK;
  }

 private:
  const Options options_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> streams_ = 0;
};

class AgentWithAQuietController : public testing::Test {
 protected:
  void Start(QuietHub::Options options) {
    hub_ = std::make_unique<QuietHub>(std::move(options));
    agent_ = std::make_unique<Agent>(AgentOptions{.controller = hub_->address(),
                                                  .version = "test",
                                                  .wake = [this] { ++wakes_; },
                                                  .first_retry_ns = 10 * kNsPerMs,
                                                  .last_retry_ns = 50 * kNsPerMs},
                                     log_.get());
    AgentHost host{.inventory = {}, .position = {"", "", "h0"}, .peer_endpoint = "10.0.0.1:7400"};
    ASSERT_TRUE(agent_->Start(host).ok());
    ASSERT_TRUE(Eventually([&] { return agent_->connected(); }));
  }

  static agent::v1::Report ReportOf(int lanes) {
    const agent::v1::Report one = ReportingLane(kId.value(), 1, 0, 61001).reports().complete(0);
    agent::v1::Report report = Reporting(kId.value(), 1).reports().complete(0);
    for (int i = 0; i < lanes; ++i) *report.add_lanes() = one.lanes(0);
    return report;
  }

  const std::unique_ptr<Log> log_ = MakeNullLog();
  std::atomic<int> wakes_ = 0;
  std::unique_ptr<QuietHub> hub_;
  std::unique_ptr<Agent> agent_;
};

// The order arrived before the member's daemon knew the communicator.
TEST_F(AgentWithAQuietController, EarlyRateLimitsAreAvailableAfterTheFirstReport) {
  agent::v1::ToAgent order;
  order.mutable_rate_limits()->set_comm_id(kId.value());
  order.mutable_rate_limits()->set_revision(7);
  Start({.order = order});
  ASSERT_TRUE(Eventually([&] { return wakes_ >= 2; }))
      << "one for the connection, one for the limits";
  EXPECT_FALSE(agent_->TakeRateUpdate().has_value());
  EXPECT_TRUE(agent_->TakeTenants().has_value()) << "received with the registration";
  const int wakes = wakes_;
  agent_->Report(ReportOf(0));
  const std::optional<RateUpdate> limits = agent_->TakeRateUpdate();
  ASSERT_TRUE(limits.has_value());
  EXPECT_EQ(limits->id, kId);
  EXPECT_EQ(limits->limits.revision, 7u);
  EXPECT_EQ(wakes_, wakes + 1) << "the engine may sleep as soon as it has reported";
  agent_->Report(ReportOf(0));
  EXPECT_FALSE(agent_->TakeRateUpdate().has_value());
  EXPECT_EQ(wakes_, wakes + 1);
}

TEST_F(AgentWithAQuietController, ReportsAtTheIntervalOfTheRegistration) {
  Start({.report_every_ns = 2 * kNsPerSec});
  EXPECT_EQ(agent_->report_every_ns(), 2 * kNsPerSec);
}

TEST_F(AgentWithAQuietController, ReportsAtTheDefaultIntervalIfTheControllerSendsNone) {
  EXPECT_EQ(Agent(AgentOptions(), log_.get()).report_every_ns(), kDefaultReportIntervalNs);
  Start({});
  EXPECT_EQ(agent_->report_every_ns(), kDefaultReportIntervalNs);
}

TEST_F(AgentWithAQuietController, IntervalOfReportsChangesWithinBounds) {
  const std::pair<int64_t, int64_t> intervals[] = {{3600 * kNsPerSec, kLongestReportIntervalNs},
                                                   {1, kShortestReportIntervalNs},
                                                   {-kNsPerSec, kDefaultReportIntervalNs},
                                                   {5 * kNsPerSec, 5 * kNsPerSec}};
  for (const auto& [sent, applied] : intervals) {
    SCOPED_TRACE(sent);
    agent::v1::ToAgent order;
    order.mutable_report_interval()->set_every_ns(sent);
    Start({.order = order, .report_every_ns = 2 * kNsPerSec});
    EXPECT_TRUE(Eventually([&] { return agent_->report_every_ns() == applied; }));
    agent_.reset();
    Start({.report_every_ns = sent});
    EXPECT_EQ(agent_->report_every_ns(), applied) << "of the registration";
    agent_.reset();
  }
}

// The message then fills the connection's buffers, and the next write waits for the reader.
TEST_F(AgentWithAQuietController, CancelsTheStreamWhenAWriteBlocks) {
  Start({.heartbeat_timeout_ns = 300 * kNsPerMs, .order = {}, .reads = false});
  agent_->Report(ReportOf(/*lanes=*/30'000));  // more than a megabyte
  EXPECT_TRUE(Eventually([&] { return hub_->streams() >= 3; }));
  agent_.reset();  // must not hang either
}

}  // namespace agent_quiet_controller_test
}  // namespace mccs
