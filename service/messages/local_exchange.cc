#include "service/messages/local_exchange.h"

#include <algorithm>
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
  MCCS_RETURN_IF_ERROR(CheckFit(message, {.type = other.call->type, .count = other.call->count}));
  Start(sends ? message : other, sends ? other : message);
  return absl::OkStatus();
}

void LocalExchange::Start(const OpenMessage& send, const OpenMessage& receive) {
  auto copy = std::make_unique<Copy>();
  copy->send = send;
  copy->receive = receive;
  // A rank that sends to itself what already lies there.
  if (send.address() == receive.address()) copy->submitted = send.bytes();
  for (Part& part : copy->parts) part.mem_ops.of_owner = &in_flight_;
  copies_.push_back(std::move(copy));
}

bool LocalExchange::Poll(std::vector<OpenMessage>& done) {
  bool moved = false;
  size_t kept = 0;
  for (std::unique_ptr<Copy>& copy : copies_) {
    if (Advance(*copy, &moved)) {
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

bool LocalExchange::Advance(Copy& copy, bool* moved) {
  const uint64_t bytes = copy.send.bytes();
  bool idle = true;
  for (Part& part : copy.parts) {
    if (part.mem_ops.outstanding == 0 && copy.submitted < bytes) {
      const uint64_t part_bytes = std::min(kPartBytes, bytes - copy.submitted);
      part.source = {.address = copy.send.address() + copy.submitted};
      part.destination = copy.receive.address() + copy.submitted;
      const MemOp op{.sources = {&part.source, 1},
                     .destinations = {&part.destination, 1},
                     .elements = part_bytes,
                     .type = DataType::kInt8};
      if (!part.mem_ops.Submit(device_, op)) return false;
      copy.submitted += part_bytes;
      *moved = true;
    }
    idle &= part.mem_ops.outstanding == 0;
  }
  return idle && copy.submitted == bytes;
}

void LocalExchange::AddUnanswered(std::vector<OpenMessage>& unanswered) const {
  for (const auto& [pair, waiting] : waiting_) {
    if (!waiting.sends.empty()) unanswered.push_back(waiting.sends.front());
    if (!waiting.receives.empty()) unanswered.push_back(waiting.receives.front());
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
