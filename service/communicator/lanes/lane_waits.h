// How long a lane was blocked from sending, by reason.
//
// OWNER: the OutgoingLane. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_LANE_WAITS_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_LANE_WAITS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "service/communicator/lanes/lane_tally.h"
#include "service/transport/lane.h"

namespace mccs {

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

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_LANE_WAITS_H_
