// Probe requests to the agent from a controller of the test, over gRPC on loopback.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/agent.grpc.pb.h"
#include "service/agent/agent.h"

namespace mccs {
namespace agent_probe_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kTimeout = std::chrono::seconds(20);

// Serves one agent after the other. Sends request_id 1 on the first stream, 2 on the second, …
class AskingHub final : public agent::v1::AgentHub::Service {
 public:
  AskingHub() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~AskingHub() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Enlarges the replies to registrations by this many bytes.
  void Pad(size_t bytes) { padding_ = bytes; }
  // Ends the current stream.
  void Hang() {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  bool AwaitStreams(uint64_t count) {
    return Await([&] { return streams_ >= count; });
  }
  bool AwaitAnswers(size_t count) {
    return Await([&] { return answers_.size() >= count; });
  }
  // Returns true once no stream is open.
  bool AwaitEndOfStream() {
    return Await([&] { return context_ == nullptr; });
  }
  std::vector<agent::v1::Probed> answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

  grpc::Status Attach(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<agent::v1::ToAgent, agent::v1::FromAgent>* stream) override {
    agent::v1::FromAgent message;
    while (stream->Read(&message)) {
      agent::v1::ToAgent answer;
      if (message.has_registration()) {
        answer.mutable_registered()->set_heartbeat_every_ns(kNsPerSec);
        answer.mutable_registered()->set_heartbeat_timeout_ns(30 * kNsPerSec);
        if (padding_ > 0) {
          agent::v1::Tenants* tenants = answer.mutable_registered()->mutable_tenants();
          tenants->add_tenants()->add_sockets(std::string(padding_, 'x'));
        }
        stream->Write(answer);
        stream->Write(Question(context));
      } else if (message.has_heartbeat()) {
        answer.mutable_heartbeat();
        stream->Write(answer);
      } else if (message.has_probed()) {
        const std::lock_guard lock(mutex_);
        answers_.push_back(message.probed());
        changed_.notify_all();
      }
    }
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    changed_.notify_all();
    return grpc::Status::OK;
  }

 private:
  agent::v1::ToAgent Question(grpc::ServerContext* context) {
    const std::lock_guard lock(mutex_);
    context_ = context;
    agent::v1::ToAgent message;
    message.mutable_probe()->set_request_id(++streams_);
    agent::v1::ProbeFlow* flow = message.mutable_probe()->add_flows();
    flow->set_source("10.0.0.1");
    flow->set_destination("10.0.1.1");
    flow->set_protocol(6);
    flow->set_source_port(61000);
    flow->set_destination_port(7400);
    flow->set_switches(3);
    changed_.notify_all();
    return message;
  }
  bool Await(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTimeout, holds);
  }

  int port_ = 0;
  std::atomic<size_t> padding_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;  // protects the following members
  std::condition_variable changed_;
  grpc::ServerContext* context_ = nullptr;
  uint64_t streams_ = 0;
  std::vector<agent::v1::Probed> answers_;
};

// Records requests; the test answers them.
struct Asked {
  std::mutex mutex;  // protects the following members
  std::condition_variable changed;
  std::vector<PathProber::Done> waiting;
  bool ended = false;  // the prober was destroyed

  // Returns the callback of the n-th request once it has arrived.
  PathProber::Done Take(size_t n) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kTimeout, [&] { return waiting.size() > n; });
    return waiting.at(n);
  }
};

class SlowProber final : public PathProber {
 public:
  explicit SlowProber(std::shared_ptr<Asked> asked) : asked_(std::move(asked)) {}
  ~SlowProber() override {
    const std::lock_guard lock(asked_->mutex);
    asked_->ended = true;
  }
  void Probe(std::vector<ProbeTask> tasks, Done done) override {
    EXPECT_EQ(tasks.size(), 1u);
    const std::lock_guard lock(asked_->mutex);
    asked_->waiting.push_back(std::move(done));
    asked_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Asked> asked_;
};

std::vector<ProbeOutcome> Over(uint32_t hop) { return {{.hops = {1, hop}, .why_not = ""}}; }

class AgentProbeTest : public testing::Test {
 protected:
  void Start(std::unique_ptr<PathProber> prober) {
    AgentOptions options{.controller = hub_.address(), .version = "test", .wake = {}};
    options.first_retry_ns = 10 * kNsPerMs;
    options.last_retry_ns = 50 * kNsPerMs;
    options.prober = std::move(prober);
    agent_ = std::make_unique<Agent>(std::move(options), log_.get());
    AgentHost host{.inventory = {}, .position = {"", "", "h0"}, .peer_endpoint = "10.0.0.1:7400"};
    ASSERT_TRUE(agent_->Start(host).ok());
  }

  const std::unique_ptr<Log> log_ = MakeNullLog();
  AskingHub hub_;
  const std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentProbeTest, AProbeReachesTheProberAndItsResultReturns) {
  Start(std::make_unique<SlowProber>(asked_));
  asked_->Take(0)(Over(0x0aff0003));
  ASSERT_TRUE(hub_.AwaitAnswers(1));
  const agent::v1::Probed answer = hub_.answers()[0];
  EXPECT_EQ(answer.request_id(), 1u);
  ASSERT_EQ(answer.flows_size(), 1);
  EXPECT_THAT(answer.flows(0).hops(), ElementsAre("0.0.0.1", "10.255.0.3"));
}

TEST_F(AgentProbeTest, WithoutAProberItReturnsAnError) {
  Start(nullptr);
  ASSERT_TRUE(hub_.AwaitAnswers(1));
  EXPECT_THAT(hub_.answers()[0].flows(0).error(), HasSubstr("does not support probes"));
}

TEST_F(AgentProbeTest, DropsAResultAfterTheEndOfItsStream) {
  Start(std::make_unique<SlowProber>(asked_));
  const PathProber::Done first = asked_->Take(0);
  hub_.Hang();
  ASSERT_TRUE(hub_.AwaitStreams(2));
  const PathProber::Done second = asked_->Take(1);
  first(Over(7));
  second(Over(8));
  ASSERT_TRUE(hub_.AwaitAnswers(1));
  ASSERT_EQ(hub_.answers().size(), 1u);
  EXPECT_EQ(hub_.answers()[0].request_id(), 2u);
}

// Like a reply with all Tenants.
TEST_F(AgentProbeTest, ReceivesMessagesAboveGrpcsDefaultLimit) {
  hub_.Pad((4 << 20) + 1);
  Start(nullptr);
  EXPECT_TRUE(hub_.AwaitAnswers(1));
}

TEST_F(AgentProbeTest, EndsItsProberAndItsStreamDuringAProbe) {
  Start(std::make_unique<SlowProber>(asked_));
  asked_->Take(0);
  EXPECT_FALSE(asked_->ended);
  agent_.reset();
  EXPECT_TRUE(asked_->ended);
  EXPECT_TRUE(hub_.AwaitEndOfStream());
  EXPECT_TRUE(hub_.answers().empty()) << "the probe had no result";
}

}  // namespace agent_probe_test
}  // namespace mccs
