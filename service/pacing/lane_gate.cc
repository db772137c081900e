#include "service/pacing/lane_gate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccs {

LaneGate::LaneGate(const Clock& clock, std::shared_ptr<SharedBucket> tenant)
    : clock_(clock), tenant_(std::move(tenant)) {
  MCCS_CHECK(tenant_ != nullptr);
}

LaneGate::~LaneGate() {
  SetBusy(false);
  tenant_->LeaveQueue(this);
}

void LaneGate::Set(uint64_t rate_bps, const SendWindows& windows, uint32_t priority) {
  MCCS_CHECK(priority <= kMaxPriority);
  const bool busy = busy_;
  SetBusy(false);  // under the old class
  bucket_.SetRate(rate_bps, clock_.Now());
  windows_ = windows;
  priority_ = priority;
  SetBusy(busy);
  if (held()) blocked_until_ = 0;  // The new limits may allow it.
}

void LaneGate::SetNic(std::shared_ptr<NicClasses> nic) {
  const bool busy = busy_;
  SetBusy(false);
  nic_ = std::move(nic);
  SetBusy(busy);
}

void LaneGate::SetTenant(std::shared_ptr<SharedBucket> tenant) {
  MCCS_CHECK(tenant != nullptr);
  if (tenant == tenant_) return;
  tenant_->LeaveQueue(this);
  tenant_ = std::move(tenant);
  if (held()) blocked_until_ = 0;
}

uint64_t LaneGate::Allowance() {
  const MonotonicNs now = queried_at_ = clock_.Now();
  uint64_t most = TokenBucket::kNoLimit;
  if (!windows_.OpenAt(now)) return Block(windows_.NextOpening(now));
  yields_ = nic_ != nullptr && nic_->HasHigherThan(priority_);
  if (yields_) {
    if (now < trickle_from_) {
      return Block(std::min(trickle_from_, now + NicClasses::kPollIntervalNs));
    }
    most = NicClasses::kTrickleBytes;
  }
  const uint64_t own = bucket_.Allowance(now);
  if (own == 0) return Block(bucket_.AvailableAt(now));
  // The shared bucket comes last: without an allowance the lane queues there and must retry in
  // turn.
  const uint64_t shared = tenant_->Allowance(this, now);
  blocked_until_ = shared == 0 ? tenant_->AvailableAt(this, now) : kNever;
  return std::min({most, own, shared});
}

uint64_t LaneGate::Block(MonotonicNs until) {
  tenant_->LeaveQueue(this);
  blocked_until_ = until;
  return 0;
}

void LaneGate::Sent(uint64_t bytes) {
  bucket_.Take(bytes, queried_at_);
  tenant_->Take(this, bytes, queried_at_);
  if (yields_) trickle_from_ = queried_at_ + NicClasses::kTrickleEveryNs;
}

void LaneGate::OnTurnEnd(const Turn& turn) {
  if (!turn.held) blocked_until_ = kNever;
  if (!turn.unsent) tenant_->LeaveQueue(this);
  SetBusy(turn.in_flight || (turn.unsent && !turn.held));
}

void LaneGate::SetBusy(bool busy) {
  if (busy == busy_) return;
  busy_ = busy;
  if (nic_ == nullptr) return;
  if (busy) {
    nic_->Enter(priority_);
  } else {
    nic_->Leave(priority_);
  }
}

}  // namespace mccs
