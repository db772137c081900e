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
  const PairList::iterator pair = FindOrAdd(message.pair);
  const bool sends = message.call->kind == OpKind::kSend;
  if (pair->calls.empty()) {
    PairList& list = pair->ListOf(message);
    list.splice(list.end(), idle_, pair);
  }
  if (pair->calls.empty() || pair->calls.front().call->kind == message.call->kind) {
    pair->calls.push_back(message);
    return absl::OkStatus();
  }
  const OpenMessage other = TakeWaiting(pair);
  MCCS_RETURN_IF_ERROR(CheckMatch(message, {.type = other.call->type, .count = other.call->count}));
  return Start(sends ? message : other, sends ? other : message);
}

LocalExchange::PairList::iterator LocalExchange::FindOrAdd(const RankPair& ranks) {
  const auto [known, is_new] = pairs_.try_emplace(ranks);
  if (is_new) {
    known->second =
        idle_.insert(idle_.end(), {.ranks = ranks,
                                   .awaiting_source = &by_awaited_[ranks.source],
                                   .awaiting_destination = &by_awaited_[ranks.destination],
                                   .calls = {}});
  }
  return known->second;
}

OpenMessage LocalExchange::TakeWaiting(PairList::iterator pair) {
  const OpenMessage oldest = pair->calls.front();
  pair->calls.pop_front();
  if (!pair->calls.empty()) return oldest;
  idle_.splice(idle_.end(), pair->ListOf(oldest), pair);
  if (idle_.size() > kMaxIdlePairs) {
    pairs_.erase(idle_.front().ranks);
    idle_.pop_front();
  }
  return oldest;
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

void LocalExchange::AddUnmatched(WaitingCalls& waiting) const {
  for (const auto& [rank, pairs] : by_awaited_) {
    for (const Pair& pair : pairs) {
      if (!waiting.Look()) return;
      waiting.Add(pair.calls.front());
    }
  }
}

const OpenMessage* LocalExchange::WaitingFor(Rank rank) const {
  const auto awaited = by_awaited_.find(rank);
  if (awaited == by_awaited_.end() || awaited->second.empty()) return nullptr;
  return &awaited->second.front().calls.front();
}

}  // namespace mccs
