#include "service/pacing/token_bucket.h"

#include <algorithm>

namespace mccs {
namespace {

// Duration of one byte at 1 bit/s.
constexpr uint64_t kNsPerByte = 8 * static_cast<uint64_t>(kNsPerSec);
// Limit of one Take, and therefore of one Allowance: more would overflow 64 bits.
constexpr uint64_t kMaxTakenBytes = uint64_t{1} << 31;

}  // namespace

void TokenBucket::SetRate(uint64_t rate_bps, MonotonicNs now) {
  rate_bps = std::min(rate_bps, kMaxRateBps);
  if (rate_bps == rate_bps_) return;
  // Without a limit there are no tokens.
  sent_until_ = rate_bps_ == 0 ? now : std::min(sent_until_, now + kBurstNs);
  remainder_ = 0;
  rate_bps_ = rate_bps;
}

uint64_t TokenBucket::BytesIn(int64_t ns) const {
  // In two parts, because 10 s at 100 Tbit/s, in bits × nanoseconds, overflow 64 bits.
  const auto time = static_cast<uint64_t>(ns);
  const uint64_t seconds = time / static_cast<uint64_t>(kNsPerSec);
  const uint64_t rest = time % static_cast<uint64_t>(kNsPerSec);
  const double bytes =
      static_cast<double>(rest) * static_cast<double>(rate_bps_) / static_cast<double>(kNsPerByte);
  return std::max<uint64_t>(seconds * (rate_bps_ / 8) + static_cast<uint64_t>(bytes), 1);
}

uint64_t TokenBucket::Allowance(MonotonicNs now) const {
  if (rate_bps_ == 0) return kNoLimit;
  const int64_t tokens_ns = std::min(now - sent_until_, kBurstNs);
  return tokens_ns < kQuantumNs ? 0 : std::min(BytesIn(tokens_ns), kMaxTakenBytes);
}

MonotonicNs TokenBucket::AvailableAt(MonotonicNs now) const {
  return rate_bps_ == 0 ? now : sent_until_ + kQuantumNs;
}

void TokenBucket::Take(uint64_t bytes, MonotonicNs now) {
  if (rate_bps_ == 0) return;
  const uint64_t due = std::min(bytes, kMaxTakenBytes) * kNsPerByte + remainder_;
  remainder_ = due % rate_bps_;
  sent_until_ = std::max(sent_until_, now - kBurstNs);
  // Compares before it adds: at 1 bit/s a deficit would last for decades.
  const auto longest = static_cast<uint64_t>(now + kMaxDeficitNs - sent_until_);
  sent_until_ += static_cast<int64_t>(std::min(due / rate_bps_, longest));
}

void SharedBucket::SetRate(uint64_t rate_bps, uint64_t revision, MonotonicNs now) {
  if (revision < revision_) return;
  revision_ = revision;
  bucket_.SetRate(rate_bps, now);
}

uint64_t SharedBucket::Allowance(const void* sender, MonotonicNs now) {
  const uint64_t allowance = bucket_.Allowance(now);
  if (bucket_.rate_bps() == 0) return allowance;
  const auto others_first = [&] { return !queue_.empty() && queue_.front() != sender; };
  if (allowance > 0 && others_first()) {
    if (skipped_since_ == 0) skipped_since_ = now;
    if (now - skipped_since_ >= kTurnTimeoutNs) LeaveQueue(queue_.front());
  }
  if (allowance == 0 || others_first()) {
    if (std::find(queue_.begin(), queue_.end(), sender) == queue_.end()) queue_.push_back(sender);
    return 0;
  }
  const bool alone = queue_.empty() || queue_.size() == 1;
  return alone ? allowance : std::min(allowance, bucket_.Quantum());
}

MonotonicNs SharedBucket::AvailableAt(const void* sender, MonotonicNs now) const {
  const MonotonicNs available = bucket_.AvailableAt(now);
  const bool first = queue_.empty() || queue_.front() == sender;
  return first ? available : std::max(available, now + kPollIntervalNs);
}

void SharedBucket::Take(const void* sender, uint64_t bytes, MonotonicNs now) {
  bucket_.Take(bytes, now);
  LeaveQueue(sender);
}

void SharedBucket::LeaveQueue(const void* sender) {
  const auto place = std::find(queue_.begin(), queue_.end(), sender);
  if (place == queue_.end()) return;
  if (place == queue_.begin()) skipped_since_ = 0;
  queue_.erase(place);
}

}  // namespace mccs
