#include "service/messages/signal_counts.h"

#include "absl/strings/str_cat.h"

namespace mccs {

absl::Status SignalCounts::Count(const RankPair& pair, uint32_t signal) {
  Pair& counted = pairs_[pair];
  ++counted.come_ever;
  if (++counted.come[signal] == 1) ++counters_;
  Serve(counted, signal);
  if (counters_ <= kMaxCounters) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too many unconsumed signals: more than ", kMaxCounters,
                   " combinations of ranks and signal index; consume them with ncclWaitSignal"));
}

void SignalCounts::Wait(const OpenMessage& wait) {
  Pair& pair = pairs_[wait.pair];
  const uint32_t signal = wait.call->signal;
  pair.waits.emplace(wait.number, wait);
  pair.by_signal.emplace(signal, wait.number);
  Serve(pair, signal);
}

void SignalCounts::Serve(Pair& pair, uint32_t signal) {
  const auto come = pair.come.find(signal);
  uint64_t left = come == pair.come.end() ? 0 : come->second;
  auto next = pair.by_signal.lower_bound({signal, 0});
  while (next != pair.by_signal.end() && next->first == signal) {
    const auto wait = pair.waits.find(next->second);
    if (wait->second.call->awaited > left) break;
    left -= wait->second.call->awaited;
    complete_.push_back(wait->second);
    pair.waits.erase(wait);
    next = pair.by_signal.erase(next);
  }
  if (come == pair.come.end()) return;
  come->second = left;
  if (left > 0) return;
  pair.come.erase(come);
  --counters_;
}

bool SignalCounts::TakeComplete(std::vector<OpenMessage>& done) {
  if (complete_.empty()) return false;
  done.insert(done.end(), complete_.begin(), complete_.end());
  complete_.clear();
  return true;
}

void SignalCounts::AddUnanswered(std::vector<OpenMessage>& unanswered) const {
  for (const auto& [ranks, pair] : pairs_) {
    if (!pair.waits.empty()) unanswered.push_back(pair.waits.begin()->second);
  }
}

const OpenMessage* SignalCounts::Unanswered(Rank rank,
                                            const std::vector<MessageCount>& counts) const {
  for (const auto& [ranks, pair] : pairs_) {
    if (ranks.source != rank || pair.waits.empty()) continue;
    const MessageCount* const with = CountWith(ranks.destination, counts);
    const uint64_t given = with == nullptr ? 0 : with->signals;
    if (pair.come_ever >= given) return &pair.waits.begin()->second;
  }
  return nullptr;
}

}  // namespace mccs
