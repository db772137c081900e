#include "controller/state/controller_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {

void ControllerEvents::Record(ControllerEvent decision, MonotonicNs now) {
  if (decisions_.size() >= kMaxPending || !TakeToken(now)) {
    ++suppressed_;
    return;
  }
  if (suppressed_ > 0) {
    absl::StrAppend(&decision.outcome, " (", suppressed_,
                    " earlier ones are only in the controller's log)");
    suppressed_ = 0;
  }
  decisions_.push_back(std::move(decision));
}

bool ControllerEvents::TakeToken(MonotonicNs now) {
  if (tokens_ == kBurst) refilled_ = now;
  const int64_t periods = (now - refilled_) / kPeriodNs;
  tokens_ = static_cast<int>(std::min<int64_t>(kBurst, tokens_ + periods));
  refilled_ += periods * kPeriodNs;
  if (tokens_ == 0) return false;
  --tokens_;
  return true;
}

}  // namespace mccs
