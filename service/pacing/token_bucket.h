// A rate, and who has gone how far with it: a token bucket, kept as the time at which what was sent
// would have left at that rate.
//
//        sent at the rate          what may go at once
//   ───────────────────────┬──────────────────────────────┬──────► time
//                       paid_until                  now + kBurstNs … at most
//
// A bucket that was not used saves kBurstNs of its rate, not more: so a rate holds within 2 % over
// each second, from its first byte on. It opens for no less than kQuantumNs of its rate, so that
// nobody is woken for every byte.
//
// A value. THREAD: the owner's.
#ifndef MCCS_SERVICE_PACING_TOKEN_BUCKET_H_
#define MCCS_SERVICE_PACING_TOKEN_BUCKET_H_

#include <cstdint>
#include <limits>

#include "base/clock.h"

namespace mccs {

class TokenBucket {
 public:
  static constexpr int64_t kBurstNs = 20 * kNsPerMs;
  static constexpr int64_t kQuantumNs = 2 * kNsPerMs;
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  // Beyond it nobody is told to wait: 100 Tb/s.
  static constexpr uint64_t kMaxRateBps = 100'000'000'000'000;

  // 0: no limit. What was saved at another rate stays, as time; a debt is forgiven down to the
  // burst of the new rate.
  void SetRate(uint64_t rate_bps, MonotonicNs now);
  uint64_t rate_bps() const { return rate_bps_; }

  // Bytes that may go now; 0: less than a quantum. kNoLimit without a rate.
  uint64_t Allowance(MonotonicNs now) const;
  // When Allowance is not 0; at most `now` if it is not.
  MonotonicNs OpensAt(MonotonicNs now) const;
  // A quantum: what is worth waking for; at least 1.
  uint64_t Quantum() const { return BytesIn(kQuantumNs); }
  // May be more than the allowance; the next allowance waits until that is made good, but never
  // longer than kMaxDebtNs.
  void Take(uint64_t bytes, MonotonicNs now);

  static constexpr int64_t kMaxDebtNs = 10 * kNsPerSec;

 private:
  uint64_t BytesIn(int64_t ns) const;

  uint64_t rate_bps_ = 0;
  // What was sent has left by then, at the rate; and the rest of the division, of rate_bps_.
  MonotonicNs paid_until_ = 0;
  uint64_t remainder_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_TOKEN_BUCKET_H_
