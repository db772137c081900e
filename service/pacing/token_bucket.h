// A rate limit as a token bucket, stored as the time at which the bytes sent so far would have left
// at that rate.
//
// clang-format off
//        sent at the rate          may be sent at once
//   ───────────────────────┬──────────────────────────────┬──────► time
//                       sent_until                  now + kBurstNs … at most
// clang-format on
//
// An unused bucket accumulates tokens for at most kBurstNs, so a rate is exact within 2 % over each
// second. Bytes are granted in quanta of at least kQuantumNs of the rate, which bounds the number
// of wake-ups.
//
// A value. THREAD: the owner's.
#ifndef MCCS_SERVICE_PACING_TOKEN_BUCKET_H_
#define MCCS_SERVICE_PACING_TOKEN_BUCKET_H_

#include <cstdint>
#include <deque>
#include <limits>

#include "base/clock.h"

namespace mccs {

class TokenBucket {
 public:
  static constexpr int64_t kBurstNs = 20 * kNsPerMs;
  static constexpr int64_t kQuantumNs = 2 * kNsPerMs;
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  // Higher rates are unlimited: 100 Tbit/s.
  static constexpr uint64_t kMaxRateBps = 100'000'000'000'000;

  // 0: no limit. Tokens of another rate remain, as time; a deficit is reduced to the burst of the
  // new rate.
  void SetRate(uint64_t rate_bps, MonotonicNs now);
  uint64_t rate_bps() const { return rate_bps_; }

  // Bytes that may be sent now; 0: less than a quantum. kNoLimit without a rate.
  uint64_t Allowance(MonotonicNs now) const;
  // The time at which Allowance becomes positive; at most `now` if it is.
  MonotonicNs AvailableAt(MonotonicNs now) const;
  // The smallest allowance worth a wake-up; at least 1.
  uint64_t Quantum() const { return BytesIn(kQuantumNs); }
  // May exceed the allowance; the next allowance then waits until the deficit is filled, but at
  // most kMaxDeficitNs.
  void Take(uint64_t bytes, MonotonicNs now);

  static constexpr int64_t kMaxDeficitNs = 10 * kNsPerSec;

 private:
  uint64_t BytesIn(int64_t ns) const;

  uint64_t rate_bps_ = 0;
  // The bytes sent have left by then, at the rate; and the remainder of the division by rate_bps_.
  MonotonicNs sent_until_ = 0;
  uint64_t remainder_ = 0;
};

// One rate limit shared by several lanes in FIFO order: a lane that finds the bucket empty joins a
// queue and gets nothing until the lanes before it have been served.
//
// THREAD: the owning engine only.
class SharedBucket {
 public:
  // The first in the queue loses its place if it does not call for this long while others wait. The
  // bucket accumulates tokens for longer than that.
  static constexpr int64_t kTurnTimeoutNs = TokenBucket::kBurstNs / 2;
  // Polling interval of lanes that are not first.
  static constexpr int64_t kPollIntervalNs = 500 * kNsPerUs;

  // 0: no limit. Ignored if a higher revision was set before.
  void SetRate(uint64_t rate_bps, uint64_t revision, MonotonicNs now);
  uint64_t rate_bps() const { return bucket_.rate_bps(); }

  // Bytes that `sender` may send now: a quantum at a time while others wait. 0: `sender` is in the
  // queue from now on.
  uint64_t Allowance(const void* sender, MonotonicNs now);
  // The next time for `sender`, which is in the queue, to call again.
  MonotonicNs AvailableAt(const void* sender, MonotonicNs now) const;
  void Take(const void* sender, uint64_t bytes, MonotonicNs now);
  // `sender` is destroyed, or has nothing to send.
  void LeaveQueue(const void* sender);

 private:
  TokenBucket bucket_;
  uint64_t revision_ = 0;  // of its rate
  std::deque<const void*> queue_;
  MonotonicNs skipped_since_ = 0;  // others called while it was the first one's turn; 0: none
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_TOKEN_BUCKET_H_
