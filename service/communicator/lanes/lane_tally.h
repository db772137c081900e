// Adds a lane's traffic to its tenant's counters.
//
// OWNER: the lane's end. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_LANE_TALLY_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_LANE_TALLY_H_

#include <cstdint>

#include "service/counters.h"
#include "service/transport/lane.h"

namespace mccs {

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

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_LANE_TALLY_H_
