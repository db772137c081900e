#include "service/messages/local_exchange.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "service/messages/poll_limit.h"

namespace mccs {

namespace {

// A kernel of the source's rank, if it has one: writes to another GPU are faster than reads.
KernelCall KernelFor(const OpenMessage& send, const OpenMessage& receive) {
  return send.call->kernel.runs() ? send.call->kernel : receive.call->kernel;
}

}  // namespace

absl::Status LocalExchange::Add(const OpenMessage& message) {
  Waiting& waiting = waiting_[message.pair];
  const bool sends = message.call->kind == OpKind::kSend;
  std::deque<OpenMessage>& ours = sends ? waiting.sends : waiting.receives;
  std::deque<OpenMessage>& theirs = sends ? waiting.receives : waiting.sends;
  if (theirs.empty()) {
    ours.push_back(message);
    return absl::OkStatus();
  }
  const OpenMessage other = theirs.front();
  theirs.pop_front();
  MCCS_RETURN_IF_ERROR(CheckMatch(message, {.type = other.call->type, .count = other.call->count}));
  return Start(sends ? message : other, sends ? other : message);
}

absl::Status LocalExchange::Start(const OpenMessage& send, const OpenMessage& receive) {
  const DeviceCopy::Job job{.from = send.memory(),
                            .to = receive.memory(),
                            .bytes = send.bytes(),
                            .kernel = KernelFor(send, receive)};
  if (!DeviceCopy::IsPossible(device_, job))
    return NotMapped(IsMapped(device_, job.from) ? receive : send);
  copies_.push_back(std::make_unique<Copy>(
      Copy{.send = send, .receive = receive, .copy = {device_, job, &mem_ops_}}));
  return absl::OkStatus();
}

absl::StatusOr<bool> LocalExchange::Poll(std::vector<OpenMessage>& done) {
  if (!mem_ops_.status.ok()) return mem_ops_.status;
  bool moved = false;
  const PollLimit limit(device_);
  for (size_t i = std::min(copies_.size(), PollLimit::kCopies); i > 0 && limit.left(); --i) {
    std::unique_ptr<Copy> copy = std::move(copies_.front());
    copies_.pop_front();
    if (copy->copy.Advance(device_, &moved)) {
      done.push_back(copy->send);
      done.push_back(copy->receive);
      moved = true;
    } else {
      copies_.push_back(std::move(copy));
    }
  }
  return moved;
}

void LocalExchange::Stop() {
  for (const std::unique_ptr<Copy>& copy : copies_) copy->copy.Stop();
}

void LocalExchange::AddUnmatched(std::vector<OpenMessage>& unmatched) const {
  for (const auto& [pair, waiting] : waiting_) {
    if (!waiting.sends.empty()) unmatched.push_back(waiting.sends.front());
    if (!waiting.receives.empty()) unmatched.push_back(waiting.receives.front());
  }
}

const OpenMessage* LocalExchange::WaitingFor(Rank rank) const {
  for (const auto& [pair, waiting] : waiting_) {
    if (pair.destination == rank && !waiting.sends.empty()) return &waiting.sends.front();
    if (pair.source == rank && !waiting.receives.empty()) return &waiting.receives.front();
  }
  return nullptr;
}

}  // namespace mccs
