#include "service/messages/local_exchange.h"

#include <utility>

#include "base/status_macros.h"

namespace mccs {

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
  Start(sends ? message : other, sends ? other : message);
  return absl::OkStatus();
}

void LocalExchange::Start(const OpenMessage& send, const OpenMessage& receive) {
  const DeviceCopy::Job job{.from = send.address(), .to = receive.address(), .bytes = send.bytes()};
  copies_.push_back(
      std::make_unique<Copy>(Copy{.send = send, .receive = receive, .copy = {job, &in_flight_}}));
}

bool LocalExchange::Poll(std::vector<OpenMessage>& done) {
  bool moved = false;
  size_t kept = 0;
  for (std::unique_ptr<Copy>& copy : copies_) {
    if (copy->copy.Advance(device_, &moved)) {
      done.push_back(copy->send);
      done.push_back(copy->receive);
      moved = true;
    } else {
      copies_[kept++].swap(copy);
    }
  }
  copies_.resize(kept);
  return moved;
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
