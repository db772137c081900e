// The gate of one lane. The lane may send if its communicator's send window is open, no higher
// class is busy on its NIC, and its own rate limit and its tenant's allow it.
//
// OWNER: the OutgoingLane. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_PACING_LANE_GATE_H_
#define MCCS_SERVICE_PACING_LANE_GATE_H_

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "service/pacing/host_pacing.h"
#include "service/pacing/rate_limits.h"
#include "service/pacing/token_bucket.h"
#include "service/transport/lane.h"

namespace mccs {

class LaneGate final : public SendGate {
 public:
  // Without limits at first. `tenant` is not null. LIFETIME: `clock` outlives this.
  LaneGate(const Clock& clock, std::shared_ptr<SharedBucket> tenant);
  ~LaneGate() override;
  LaneGate(const LaneGate&) = delete;

  // `rate_bps`: bit/s of payload; 0: no rate limit of its own. REQUIRES: priority ≤ kMaxPriority.
  void Set(uint64_t rate_bps, const SendWindows& windows, uint32_t priority);
  void SetNic(std::shared_ptr<NicClasses> nic);
  // REQUIRES: not null.
  void SetTenant(std::shared_ptr<SharedBucket> tenant);
  uint64_t rate_bps() const override { return bucket_.rate_bps(); }

  uint64_t Allowance() override;
  void Sent(uint64_t bytes) override;
  void OnTurnEnd(const Turn& turn) override;

  // The lane has something to send, and only the gate blocks it.
  bool held() const { return blocked_until_ != kNever; }
  // The next time to call Allowance again; never if the gate does not block.
  MonotonicNs NextDeadline() const { return blocked_until_; }

 private:
  uint64_t Block(MonotonicNs until);
  void SetBusy(bool busy);

  const Clock& clock_;
  std::shared_ptr<SharedBucket> tenant_;
  std::shared_ptr<NicClasses> nic_;  // may be null
  TokenBucket bucket_;
  SendWindows windows_;
  uint32_t priority_ = 0;
  bool busy_ = false;  // counted in nic_, under priority_
  MonotonicNs queried_at_ = 0;
  bool yields_ = false;  // to a higher class, at the last call
  MonotonicNs trickle_from_ = 0;
  MonotonicNs blocked_until_ = kNever;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_LANE_GATE_H_
