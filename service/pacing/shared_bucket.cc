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
  const auto others_first = [&] { return !line_.empty() && line_.front() != who; };
  if (allowance > 0 && others_first()) {
    if (in_vain_since_ == 0) in_vain_since_ = now;
    if (now - in_vain_since_ >= kNoShowNs) LeaveLine(line_.front());
  }
  if (allowance == 0 || others_first()) {
    if (std::find(line_.begin(), line_.end(), who) == line_.end()) line_.push_back(who);
    return 0;
  }
  const bool alone = line_.empty() || line_.size() == 1;
  return alone ? allowance : std::min(allowance, bucket_.Quantum());
}

MonotonicNs SharedBucket::OpensAt(const void* who, MonotonicNs now) const {
  const MonotonicNs opens = bucket_.OpensAt(now);
  const bool first = line_.empty() || line_.front() == who;
  return first ? opens : std::max(opens, now + kLookAgainNs);
}

void SharedBucket::Take(const void* who, uint64_t bytes, MonotonicNs now) {
  bucket_.Take(bytes, now);
  LeaveLine(who);
}

void SharedBucket::LeaveLine(const void* who) {
  const auto place = std::find(line_.begin(), line_.end(), who);
  if (place == line_.end()) return;
  if (place == line_.begin()) in_vain_since_ = 0;
  line_.erase(place);
}

}  // namespace mccs
