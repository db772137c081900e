#include "service/messages/signal_counts.h"

#include "absl/strings/str_cat.h"

namespace mccs {

absl::Status SignalCounts::Count(const RankPair& pair, uint32_t signal) {
  ++come_ever_[pair];
  const Key key{pair, signal};
  ++come_[key];
  Serve(key);
  if (come_.size() <= kMaxCounters) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("signals under more than ", kMaxCounters,
                   " pairs of ranks and signal indices wait to be waited for (ncclWaitSignal)"));
}

void SignalCounts::Wait(const OpenMessage& wait) {
  const Key key{wait.pair, wait.call->signal};
  waits_[key].push_back(wait);
  Serve(key);
}

void SignalCounts::Serve(const Key& key) {
  const auto waits = waits_.find(key);
  if (waits == waits_.end()) return;
  const auto come = come_.find(key);
  uint64_t left = come == come_.end() ? 0 : come->second;
  while (!waits->second.empty() && waits->second.front().call->awaited <= left) {
    left -= waits->second.front().call->awaited;
    complete_.push_back(waits->second.front());
    waits->second.pop_front();
  }
  if (waits->second.empty()) waits_.erase(waits);
  if (come == come_.end()) return;
  come->second = left;
  if (left == 0) come_.erase(come);
}

bool SignalCounts::TakeComplete(std::vector<OpenMessage>& done) {
  if (complete_.empty()) return false;
  done.insert(done.end(), complete_.begin(), complete_.end());
  complete_.clear();
  return true;
}

void SignalCounts::AddUnanswered(std::vector<OpenMessage>& unanswered) const {
  for (const auto& [key, waits] : waits_) unanswered.push_back(waits.front());
}

const OpenMessage* SignalCounts::Unanswered(Rank rank,
                                            const std::vector<MessageCount>& counts) const {
  for (const auto& [key, waits] : waits_) {
    if (key.pair.source != rank) continue;
    const MessageCount* const with = CountWith(key.pair.destination, counts);
    const uint64_t given = with == nullptr ? 0 : with->signals;
    const auto come = come_ever_.find(key.pair);
    if ((come == come_ever_.end() ? 0 : come->second) >= given) return &waits.front();
  }
  return nullptr;
}

}  // namespace mccs
