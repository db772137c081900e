// Counts a lane's traffic, and the time during which it was blocked from sending.
//
// OWNER: the lane's end. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_LANE_TALLY_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_LANE_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "service/counters.h"
#include "service/transport/lane.h"

namespace mccs {

// Adds a lane's traffic to its tenant's counters.
class LaneTally {
 public:
  // Null: not counted. LIFETIME: `into` outlives this.
  explicit LaneTally(TenantCounters::Lanes* into) : into_(into) {}

  // `now`: totals of the lane since it was created.
  void Count(const LaneCounters& now) {
    if (into_ == nullptr) return;
    into_->bytes.Add(now.payload_bytes - bytes_);
    into_->reconnects.Add(now.reconnects - reconnects_);
    bytes_ = now.payload_bytes;
    reconnects_ = now.reconnects;
  }
  // Adds a wait that has ended.
  void CountWait(LaneWait wait, int64_t ns) {
    static_assert(static_cast<size_t>(LaneWait::kConnection) + 1 == kLaneWaits);
    if (into_ != nullptr) into_->wait_ns[static_cast<size_t>(wait)].Add(static_cast<uint64_t>(ns));
  }

 private:
  TenantCounters::Lanes* const into_;
  uint64_t bytes_ = 0;  // counted so far
  uint64_t reconnects_ = 0;
};

// How long an outgoing lane was blocked, by reason.
class LaneWaits {
 public:
  // Starts a wait for `wait` and counts the previous one. Reads the clock only if the reason
  // changes.
  void SetReason(LaneWait wait, const Clock& clock, LaneTally& tally) {
    if (wait == wait_) return;
    const MonotonicNs now = clock.Now();
    if (wait_ != LaneWait::kNothing) {
      ns_[Index(wait_)] += now - since_;
      tally.CountWait(wait_, now - since_);
    }
    wait_ = wait;
    since_ = now;
  }
  // Until `now`, including the current wait.
  int64_t TotalNs(LaneWait wait, MonotonicNs now) const {
    return ns_[Index(wait)] + (wait == wait_ ? now - since_ : 0);
  }

 private:
  static constexpr size_t Index(LaneWait wait) { return static_cast<size_t>(wait); }

  LaneWait wait_ = LaneWait::kNothing;
  MonotonicNs since_ = 0;
  std::array<int64_t, kLaneWaits> ns_{};
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_LANE_TALLY_H_
