// Decisions of the controller itself, for the audit log: strategies that changed because of events
// in the cluster, lowered guarantees, rejected daemons. The direct effects of an operator's change
// are in the audit entry of that change.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STATE_CONTROLLER_EVENTS_H_
#define MCCS_CONTROLLER_STATE_CONTROLLER_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/state/burst_limit.h"

namespace mccs {

struct ControllerEvent {
  std::string action;   // from controller/state/audit_actions.h
  std::string objects;  // affected objects
  std::string outcome;  // "done: …"; a fixed set before the colon
};

// Rate limit, so that frequent events do not push operators' entries out of the log. After a burst,
// one decision per period passes, with the number of suppressed ones. Rejected daemons have a limit
// of their own: a daemon may cause them without end.
class ControllerEvents {
 public:
  static constexpr int kBurst = 60;
  static constexpr int64_t kPeriodNs = 60 * kNsPerSec;
  static constexpr size_t kMaxPending = 1000;  // limit if Take is not called

  void Record(ControllerEvent decision, MonotonicNs now);
  // Decisions since the last call.
  std::vector<ControllerEvent> Take() { return std::exchange(decisions_, {}); }

 private:
  struct Limit {
    BurstLimit burst{kBurst, kPeriodNs};
    uint64_t suppressed = 0;
  };

  std::vector<ControllerEvent> decisions_;
  Limit rejected_daemons_;
  Limit others_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_CONTROLLER_EVENTS_H_
