#include "controller/state/controller_events.h"

#include "absl/strings/str_cat.h"

namespace mccs {

void ControllerEvents::Record(ControllerEvent decision, MonotonicNs now) {
  if (decisions_.size() >= kMaxPending || !limit_.Take(now)) {
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

}  // namespace mccs
