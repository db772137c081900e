// What the controller decided by itself and operators shall find in the audit log: strategies that
// changed because of what happened in the cluster, guarantees that were lowered, daemons that were
// refused. What follows from an operator's change at once stands under that change.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_OWN_DECISIONS_H_
#define MCCS_CONTROLLER_OWN_DECISIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace mccs {

struct OwnDecision {
  std::string action;   // "replan", "lower guarantees", …: one of a few
  std::string objects;  // what it is about
  std::string outcome;  // "done: …"; before the colon stands one of a few words
};

// However often something comes and goes, it does not push out what operators did: beyond a burst
// one decision is let through in each period, and it says how many were not.
class OwnDecisions {
 public:
  static constexpr int kBurst = 60;
  static constexpr int64_t kPeriodNs = 60 * kNsPerSec;
  static constexpr size_t kMaxUntaken = 1000;  // where nobody keeps them

  void Note(OwnDecision decision, MonotonicNs now);
  // Those since the last call.
  std::vector<OwnDecision> Take() { return std::exchange(decisions_, {}); }

 private:
  // Whether there is room for one more, which is then taken.
  bool TakeTurn(MonotonicNs now);

  std::vector<OwnDecision> decisions_;
  int turns_ = kBurst;
  MonotonicNs refilled_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OWN_DECISIONS_H_
