// One rate limit shared by several lanes in FIFO order: a lane that finds the bucket empty joins a
// queue and gets nothing until the lanes before it have been served.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_PACING_SHARED_BUCKET_H_
#define MCCS_SERVICE_PACING_SHARED_BUCKET_H_

#include <cstdint>
#include <deque>

#include "service/pacing/token_bucket.h"

namespace mccs {

class SharedBucket {
 public:
  // The first in the queue loses its place if it does not call for this long while others wait. The
  // bucket saves its rate for longer than that.
  static constexpr int64_t kTurnTimeoutNs = TokenBucket::kBurstNs / 2;
  // Polling interval of lanes that are not first.
  static constexpr int64_t kPollIntervalNs = 500 * kNsPerUs;

  // 0: no limit. Ignored if a higher revision was set before.
  void SetRate(uint64_t rate_bps, uint64_t revision, MonotonicNs now);
  uint64_t rate_bps() const { return bucket_.rate_bps(); }

  // Bytes that `who` may send now: a quantum at a time while others wait. 0: `who` is in the queue
  // from now on.
  uint64_t Allowance(const void* who, MonotonicNs now);
  // The next time for `who`, which is in the queue, to call again.
  MonotonicNs OpensAt(const void* who, MonotonicNs now) const;
  void Take(const void* who, uint64_t bytes, MonotonicNs now);
  // `who` is destroyed, or has nothing to send.
  void LeaveQueue(const void* who);

 private:
  TokenBucket bucket_;
  uint64_t revision_ = 0;  // of its rate
  std::deque<const void*> queue_;
  MonotonicNs skipped_since_ = 0;  // others called while it was the first one's turn; 0: none
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_SHARED_BUCKET_H_
