#include "controller/state/controller_events.h"

#include "absl/strings/str_cat.h"
#include "controller/state/audit_actions.h"

namespace mccs {

void ControllerEvents::Record(ControllerEvent decision, MonotonicNs now) {
  Limit& limit = decision.action == kAuditRejectDaemon ? rejected_daemons_ : others_;
  if (decisions_.size() >= kMaxPending || !limit.burst.Take(now)) {
    ++limit.suppressed;
    return;
  }
  if (limit.suppressed > 0) {
    absl::StrAppend(&decision.outcome, " (", limit.suppressed,
                    " earlier ones are only in the controller's log)");
    limit.suppressed = 0;
  }
  decisions_.push_back(std::move(decision));
}

}  // namespace mccs
