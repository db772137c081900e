#include "service/pacing/shared_bucket.h"

#include <algorithm>

namespace mccs {

void SharedBucket::SetRate(uint64_t rate_bps, uint64_t revision, MonotonicNs now) {
  if (revision < revision_) return;
  revision_ = revision;
  bucket_.SetRate(rate_bps, now);
}

uint64_t SharedBucket::Allowance(const void* who, MonotonicNs now) {
  const uint64_t allowance = bucket_.Allowance(now);
  if (bucket_.rate_bps() == 0) return allowance;
  const auto others_first = [&] { return !queue_.empty() && queue_.front() != who; };
  if (allowance > 0 && others_first()) {
    if (skipped_since_ == 0) skipped_since_ = now;
    if (now - skipped_since_ >= kTurnTimeoutNs) LeaveQueue(queue_.front());
  }
  if (allowance == 0 || others_first()) {
    if (std::find(queue_.begin(), queue_.end(), who) == queue_.end()) queue_.push_back(who);
    return 0;
  }
  const bool alone = queue_.empty() || queue_.size() == 1;
  return alone ? allowance : std::min(allowance, bucket_.Quantum());
}

MonotonicNs SharedBucket::OpensAt(const void* who, MonotonicNs now) const {
  const MonotonicNs opens = bucket_.OpensAt(now);
  const bool first = queue_.empty() || queue_.front() == who;
  return first ? opens : std::max(opens, now + kPollIntervalNs);
}

void SharedBucket::Take(const void* who, uint64_t bytes, MonotonicNs now) {
  bucket_.Take(bytes, now);
  LeaveQueue(who);
}

void SharedBucket::LeaveQueue(const void* who) {
  const auto place = std::find(queue_.begin(), queue_.end(), who);
  if (place == queue_.end()) return;
  if (place == queue_.begin()) skipped_since_ = 0;
  queue_.erase(place);
}

}  // namespace mccs
