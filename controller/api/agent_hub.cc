#include "controller/api/agent_hub.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/operator_view.h"

namespace mccs {
namespace {

// Limit of messages that wait for a slow agent; at the limit its stream ends.
constexpr size_t kMaxWaitingMessages = 4096;

}  // namespace

// One agent's stream. Never calls gRPC under the mutex, since gRPC may run a callback before it
// returns.
//
//   kOpen ──End()──► kEnding ──last write done──► kFinished ──OnDone──► gone
class AgentStream final : public grpc::ServerBidiReactor<agent::v1::FromAgent, agent::v1::ToAgent>,
                          public std::enable_shared_from_this<AgentStream> {
 public:
  AgentStream(AgentHub* hub, AgentKey key, std::shared_ptr<const grpc::AuthContext> client)
      : hub_(hub), key_(key), client_(std::move(client)) {}

  void Start() { StartRead(&incoming_); }

  // Queue and QueueEnd append to the outgoing messages; then call Advance.
  void Queue(agent::v1::ToAgent message) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;
    if (outgoing_.size() >= kMaxWaitingMessages) {
      return EndLocked(
          grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the agent reads too slowly"));
    }
    outgoing_.push_back(std::move(message));
  }
  void QueueEnd(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    EndLocked(std::move(status));
  }

  // Starts the next write, or finishes the stream, if possible.
  void Advance() {
    const agent::v1::ToAgent* write = nullptr;
    std::optional<grpc::Status> finish;
    const std::shared_ptr<AgentStream> self =
        shared_from_this();  // OnDone may run before we return.
    {
      const std::lock_guard lock(mutex_);
      if (writing_ || state_ == State::kFinished) return;
      if (state_ == State::kEnding) {
        state_ = State::kFinished;
        finish = end_;
      } else if (!outgoing_.empty()) {
        writing_ = true;
        write = &outgoing_.front();  // push_back does not move a deque's elements.
      }
    }
    if (write != nullptr) StartWrite(write);
    if (finish) Finish(*finish);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      hub_->Handle(key_, *client_, std::move(incoming_));
      StartRead(&incoming_);
      return;
    }
    hub_->OnStreamClosed(key_, "its connection closed");
    QueueEnd(grpc::Status::OK);
    Advance();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      outgoing_.pop_front();
    }
    if (!ok) QueueEnd(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke"));
    Advance();
  }

  void OnDone() override { hub_->Remove(key_); }

 private:
  enum class State { kOpen, kEnding, kFinished };

  // REQUIRES: mutex_ is held.
  void EndLocked(grpc::Status status) {
    if (state_ != State::kOpen) return;
    state_ = State::kEnding;
    end_ = std::move(status);
    // Keeps the message that is being written.
    outgoing_.resize(writing_ ? 1 : 0);
  }

  AgentHub* const hub_;
  const AgentKey key_;
  const std::shared_ptr<const grpc::AuthContext> client_;
  agent::v1::FromAgent incoming_;
  std::mutex mutex_;  // guards all members below
  State state_ = State::kOpen;
  bool writing_ = false;
  std::deque<agent::v1::ToAgent> outgoing_;
  grpc::Status end_;
};

grpc::ServerBidiReactor<agent::v1::FromAgent, agent::v1::ToAgent>* AgentHub::Attach(
    grpc::CallbackServerContext* context) {
  std::shared_ptr<AgentStream> stream;
  AgentKey key;
  {
    const std::lock_guard lock(mutex_);
    key = AgentKey(++last_key_);
    stream = std::make_shared<AgentStream>(this, key, context->auth_context());
    streams_[key] = stream;
  }
  // Before anything is read: a message may have 64 MiB.
  const absl::Status allowed = access_->CheckIsHost(*context->auth_context());
  With([&](Coordinator& c) { c.OnStreamOpened(key, context->peer(), allowed); });
  if (allowed.ok()) stream->Start();
  return stream.get();
}

void AgentHub::Tick() {
  With([](Coordinator& c) { c.Tick(); });
  DeliverAnswers();
}

void AgentHub::Flush() {
  With([](Coordinator&) {});
}

void AgentHub::Handle(AgentKey key, const grpc::AuthContext& client, agent::v1::FromAgent message) {
  const bool answers = message.has_dumped() || message.has_traced();
  AgentMessage checked(std::move(message));  // before the mutex is locked
  if (checked.body.has_registration())
    checked.refused.Update(access_->CheckHost(client, checked.body.registration().host().name()));
  With([&](Coordinator& c) { c.Handle(key, std::move(checked)); });
  if (answers) DeliverAnswers();
}

void AgentHub::OnStreamClosed(AgentKey key, const std::string& why) {
  With([&](Coordinator& c) { c.OnStreamClosed(key, why); });
  DeliverAnswers();
}

// Queues the outgoing messages under the coordinator's lock, so that threads keep their order.
// Starts writes without the lock, since they may call back.
void AgentHub::With(absl::FunctionRef<void(Coordinator&)> act) {
  std::vector<std::shared_ptr<AgentStream>> streams;
  coordinator_->With([&](Coordinator& c) {
    act(c);
    streams = Queue(c.TakeOutbox());
  });
  for (const auto& stream : streams) stream->Advance();
}

std::vector<std::shared_ptr<AgentStream>> AgentHub::Queue(std::vector<Outgoing> outbox) {
  std::vector<std::shared_ptr<AgentStream>> streams;
  const std::lock_guard lock(mutex_);
  for (Outgoing& outgoing : outbox) {
    const auto known = streams_.find(outgoing.to);
    if (known == streams_.end()) continue;
    if (outgoing.message) {
      known->second->Queue(*std::move(outgoing.message));
    } else {
      known->second->QueueEnd(ToGrpc(outgoing.end));
    }
    if (streams.empty() || streams.back() != known->second) streams.push_back(known->second);
  }
  return streams;
}

void AgentHub::RequestState(const std::string& host, StateCallback answer) {
  absl::Status rejected;
  With([&](Coordinator& c) { rejected = c.RequestState(host, answer); });
  if (!rejected.ok()) answer(rejected);
}

uint64_t AgentHub::RequestTrace(const std::string& id, uint32_t operations,
                                const TraceCallback& answer) {
  absl::StatusOr<uint64_t> request = uint64_t{0};
  With([&](Coordinator& c) {
    const absl::StatusOr<CommId> found = FindCommunicator(c.state(), id);
    request = found.ok() ? c.RequestTrace(*found, operations, answer) : found.status();
  });
  if (!request.ok()) answer(request.status());
  DeliverAnswers();  // All hosts may be lost.
  return request.value_or(0);
}

void AgentHub::CancelTrace(uint64_t request_id) {
  With([&](Coordinator& c) { c.CancelTrace(request_id); });
  DeliverAnswers();
}

void AgentHub::FailRequests() {
  coordinator_->With([](Coordinator& c) { c.StopRequests(); });
  DeliverAnswers();
}

void AgentHub::DeliverAnswers() {
  for (StateAnswer& answer : coordinator_->With([](Coordinator& c) { return c.TakeAnswers(); }))
    answer.callback(answer.state);
  for (TraceAnswer& answer :
       coordinator_->With([](Coordinator& c) { return c.TakeTraceAnswers(); }))
    answer.callback(answer.reply);
}

void AgentHub::Remove(AgentKey key) {
  std::shared_ptr<AgentStream> last;  // Destroyed after the lock.
  const std::lock_guard lock(mutex_);
  const auto known = streams_.find(key);
  if (known == streams_.end()) return;
  last = std::move(known->second);
  streams_.erase(known);
}

}  // namespace mccs
