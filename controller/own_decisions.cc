#include "controller/own_decisions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {

void OwnDecisions::Note(OwnDecision decision, MonotonicNs now) {
  if (decisions_.size() >= kMaxUntaken || !TakeTurn(now)) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0) {
    absl::StrAppend(&decision.outcome, " (", left_out_,
                    " earlier ones are only in the controller's log)");
    left_out_ = 0;
  }
  decisions_.push_back(std::move(decision));
}

bool OwnDecisions::TakeTurn(MonotonicNs now) {
  if (turns_ == kBurst) refilled_ = now;
  const int64_t periods = (now - refilled_) / kPeriodNs;
  turns_ = static_cast<int>(std::min<int64_t>(kBurst, turns_ + periods));
  refilled_ += periods * kPeriodNs;
  if (turns_ == 0) return false;
  --turns_;
  return true;
}

}  // namespace mccs
