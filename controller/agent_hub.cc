#include "controller/agent_hub.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

// An agent that reads so slowly that this many messages wait for it is cut off.
constexpr size_t kMaxWaitingMessages = 4096;

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace

// One agent's stream. gRPC is never called under the mutex: it may run a callback before it
// returns.
//
//   kOpen ──End()──► kEnding ──last write done──► kFinished ──OnDone──► gone
class AgentStream final : public grpc::ServerBidiReactor<agent::FromAgent, agent::ToAgent>,
                          public std::enable_shared_from_this<AgentStream> {
 public:
  AgentStream(AgentHub* hub, AgentKey key) : hub_(hub), key_(key) {}

  void Start() { StartRead(&incoming_); }

  void Send(agent::ToAgent message) {
    bool too_slow = false;
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::kOpen) return;
      too_slow = outgoing_.size() >= kMaxWaitingMessages;
      if (!too_slow) outgoing_.push_back(std::move(message));
    }
    if (too_slow)
      return End(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the agent does not read"));
    Advance();
  }

  void End(grpc::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::kOpen) return;
      state_ = State::kEnding;
      end_ = std::move(status);
      // What is being written now must stay until it is.
      outgoing_.resize(writing_ ? 1 : 0);
    }
    Advance();
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      hub_->Hear(key_, incoming_);
      StartRead(&incoming_);
      return;
    }
    hub_->Gone(key_, "its connection closed");
    End(grpc::Status::OK);
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      outgoing_.pop_front();
    }
    if (!ok) End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke"));
    Advance();
  }

  void OnDone() override { hub_->Forget(key_); }

 private:
  enum class State { kOpen, kEnding, kFinished };

  // Starts the next write, or finishes, if it is time.
  void Advance() {
    const agent::ToAgent* write = nullptr;
    std::optional<grpc::Status> finish;
    const std::shared_ptr<AgentStream> self =
        shared_from_this();  // OnDone may come before we return.
    {
      const std::lock_guard lock(mutex_);
      if (writing_ || state_ == State::kFinished) return;
      if (state_ == State::kEnding) {
        state_ = State::kFinished;
        finish = end_;
      } else if (!outgoing_.empty()) {
        writing_ = true;
        write =
            &outgoing_.front();  // A deque's elements stay where they are when others are pushed.
      }
    }
    if (write != nullptr) StartWrite(write);
    if (finish) Finish(*finish);
  }

  AgentHub* const hub_;
  const AgentKey key_;
  agent::FromAgent incoming_;
  std::mutex mutex_;  // of what follows
  State state_ = State::kOpen;
  bool writing_ = false;
  std::deque<agent::ToAgent> outgoing_;
  grpc::Status end_;
};

grpc::ServerBidiReactor<agent::FromAgent, agent::ToAgent>* AgentHub::Attach(
    grpc::CallbackServerContext* /*context*/) {
  std::shared_ptr<AgentStream> stream;
  {
    const std::lock_guard lock(mutex_);
    const AgentKey key(++last_key_);
    stream = std::make_shared<AgentStream>(this, key);
    streams_[key] = stream;
  }
  stream->Start();
  return stream.get();
}

void AgentHub::Tick() {
  Deliver(coordinator_->With([](Coordinator& c) {
    c.Tick();
    return c.TakeOutbox();
  }));
  DeliverAnswers();
}

void AgentHub::Flush() {
  Deliver(coordinator_->With([](Coordinator& c) { return c.TakeOutbox(); }));
}

void AgentHub::Hear(AgentKey key, const agent::FromAgent& message) {
  Deliver(coordinator_->With([&](Coordinator& c) {
    c.Hear(key, message);
    return c.TakeOutbox();
  }));
  if (message.has_dumped()) DeliverAnswers();
}

void AgentHub::Gone(AgentKey key, const std::string& why) {
  Deliver(coordinator_->With([&](Coordinator& c) {
    c.Gone(key, why);
    return c.TakeOutbox();
  }));
  DeliverAnswers();
}

void AgentHub::Deliver(std::vector<Outgoing> outbox) {
  for (Outgoing& outgoing : outbox) {
    std::shared_ptr<AgentStream> stream;
    {
      const std::lock_guard lock(mutex_);
      const auto known = streams_.find(outgoing.to);
      if (known == streams_.end()) continue;
      stream = known->second;
    }
    if (outgoing.message) {
      stream->Send(*std::move(outgoing.message));
    } else {
      stream->End(ToGrpc(outgoing.end));
    }
  }
}

void AgentHub::AskState(const std::string& host, TakeState answer) {
  std::vector<Outgoing> outbox;
  absl::Status refused;
  coordinator_->With([&](Coordinator& c) {
    const std::lock_guard lock(mutex_);
    if (stops_asking_) {
      refused = absl::FailedPreconditionError("the controller is stopping");
      return;
    }
    const absl::StatusOr<uint64_t> question = c.AskState(host);
    refused = question.status();
    // Before the answer can come.
    if (question.ok()) asked_[*question] = answer;
    outbox = c.TakeOutbox();
  });
  if (!refused.ok()) answer(refused);
  Deliver(std::move(outbox));
}

void AgentHub::DeliverAnswers() {
  for (StateAnswer& answer : coordinator_->With([](Coordinator& c) { return c.TakeAnswers(); })) {
    TakeState take;
    {
      const std::lock_guard lock(mutex_);
      const auto known = asked_.find(answer.question);
      if (known == asked_.end()) continue;
      take = std::move(known->second);
      asked_.erase(known);
    }
    take(answer.state);
  }
}

void AgentHub::StopAsking() {
  std::map<uint64_t, TakeState> open;
  {
    const std::lock_guard lock(mutex_);
    stops_asking_ = true;
    open.swap(asked_);
  }
  for (const auto& [question, take] : open) {
    take(absl::FailedPreconditionError("the controller is stopping"));
  }
}

void AgentHub::Forget(AgentKey key) {
  std::shared_ptr<AgentStream> last;  // Destroyed after the lock is.
  const std::lock_guard lock(mutex_);
  const auto known = streams_.find(key);
  if (known == streams_.end()) return;
  last = std::move(known->second);
  streams_.erase(known);
}

}  // namespace mccs
