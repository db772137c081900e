// One rate for several lanes, in turns: who finds the bucket empty stands in line, and until those
// in front have been served it gets nothing.
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
  // Who is first in line and does not come loses its place so long after others came in vain; the
  // bucket saves the rate for longer than that.
  static constexpr int64_t kNoShowNs = TokenBucket::kBurstNs / 2;
  // How often who is not first looks whether it is.
  static constexpr int64_t kLookAgainNs = 500 * kNsPerUs;

  // 0: no limit. Nothing, if something was said under a higher revision.
  void SetRate(uint64_t rate_bps, uint64_t revision, MonotonicNs now);
  uint64_t rate_bps() const { return bucket_.rate_bps(); }

  // Bytes that `who` may send now: a quantum at a time while others stand in line. 0: it stands in
  // line from now on.
  uint64_t Allowance(const void* who, MonotonicNs now);
  // When it is worth for `who`, in line, to ask again.
  MonotonicNs OpensAt(const void* who, MonotonicNs now) const;
  void Take(const void* who, uint64_t bytes, MonotonicNs now);
  // `who` is gone, or has nothing to send.
  void LeaveLine(const void* who);

 private:
  TokenBucket bucket_;
  uint64_t revision_ = 0;  // of its rate
  std::deque<const void*> line_;
  MonotonicNs in_vain_since_ = 0;  // others came while it was the first one's turn; 0: none
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_SHARED_BUCKET_H_
