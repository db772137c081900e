#include "service/messages/signal_counts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::Status SignalCounts::Count(const RankPair& pair, uint32_t signal) {
  Pair& counted = pairs_[pair];
  ++counted.total_received;
  if (++counted.pending[signal] == 1) ++counters_;
  Serve(pair, counted, signal);
  if (counters_ <= kMaxCounters) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too many unconsumed signals: more than ", kMaxCounters,
                   " combinations of ranks and signal index; consume them with ncclWaitSignal"));
}

void SignalCounts::Wait(const OpenMessage& wait) {
  Pair& pair = pairs_[wait.pair];
  const uint32_t signal = wait.call->signal;
  const bool is_first = pair.waits.empty();
  pair.waits.emplace(wait.number, wait);
  pair.by_signal.emplace(signal, wait.number);
  Serve(wait.pair, pair, signal);
  if (is_first && !pair.waits.empty()) waiting_[wait.pair.source].insert(wait.pair);
}

void SignalCounts::Serve(const RankPair& ranks, Pair& pair, uint32_t signal) {
  const auto pending = pair.pending.find(signal);
  uint64_t left = pending == pair.pending.end() ? 0 : pending->second;
  auto next = pair.by_signal.lower_bound({signal, 0});
  while (next != pair.by_signal.end() && next->first == signal) {
    const auto wait = pair.waits.find(next->second);
    if (wait->second.call->awaited > left) break;
    if (complete_.size() == kCompletePerTurn) {
      const Counter counter(ranks, signal);
      if (is_stopped_.insert(counter).second) stopped_.push_back(counter);
      break;
    }
    left -= wait->second.call->awaited;
    complete_.push_back(wait->second);
    pair.waits.erase(wait);
    next = pair.by_signal.erase(next);
    if (pair.waits.empty()) waiting_[ranks.source].erase(ranks);
  }
  if (pending == pair.pending.end()) return;
  pending->second = left;
  if (left > 0) return;
  pair.pending.erase(pending);
  --counters_;
}

bool SignalCounts::TakeComplete(std::vector<OpenMessage>& done) {
  if (complete_.empty()) return false;
  done.insert(done.end(), complete_.begin(), complete_.end());
  complete_.clear();
  while (!stopped_.empty() && complete_.size() < kCompletePerTurn) {
    const Counter next = stopped_.front();
    stopped_.pop_front();
    is_stopped_.erase(next);
    Serve(next.first, pairs_.at(next.first), next.second);
  }
  return true;
}

void SignalCounts::AddUnmatched(WaitingCalls& waiting) const {
  for (const auto& [source, pairs] : waiting_) {
    for (const RankPair& ranks : pairs) {
      if (!waiting.Look()) return;
      waiting.Add(pairs_.at(ranks).waits.begin()->second);
    }
  }
}

const OpenMessage* SignalCounts::Unmatched(Rank rank,
                                           const std::vector<MessageCount>& counts) const {
  const auto of_rank = waiting_.find(rank);
  if (of_rank == waiting_.end()) return nullptr;
  for (const RankPair& ranks : of_rank->second) {
    const Pair& pair = pairs_.at(ranks);
    const MessageCount* const with = CountWith(ranks.destination, counts);
    const uint64_t given = with == nullptr ? 0 : with->signals;
    const uint64_t to_come = given - std::min(given, pair.total_received);
    const OpenMessage& oldest = pair.waits.begin()->second;
    const auto pending = pair.pending.find(oldest.call->signal);
    const uint64_t arrived = pending == pair.pending.end() ? 0 : pending->second;
    // If they have all arrived, it is complete in a later turn.
    if (arrived < oldest.call->awaited && to_come < oldest.call->awaited - arrived) return &oldest;
  }
  return nullptr;
}

}  // namespace mccs
