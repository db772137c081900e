// Tracks the rate limits that daemons were sent, and computes which updates are needed.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_RATES_SENT_LIMITS_H_
#define MCCS_CONTROLLER_RATES_SENT_LIMITS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "controller/policy/shares.h"
#include "controller/state/registry.h"
#include "proto/agent.pb.h"

namespace mccs {

class SentLimits {
 public:
  // New revisions are higher than `last_revision`, the highest of earlier controllers.
  explicit SentLimits(uint64_t last_revision) : revision_(last_revision) {}

  // Sets the current limits; those of communicators not in `planned` are dropped. Returns the
  // changes, one per communicator, for all of its hosts. If `lifts`, includes each communicator
  // without a limit that this object has not sent one: an earlier controller may have. Windows are
  // on the controller's clock.
  std::vector<agent::v1::RateLimits> Update(const std::vector<PlannedRateLimits>& planned,
                                            bool lifts);

  // The limits of communicators with ranks on `host`: for a daemon that has lost them.
  std::vector<agent::v1::RateLimits> LimitsFor(
      const std::string& host, const std::map<CommId, CommunicatorRecord>& communicators) const;

 private:
  struct SentLimit {
    PlannedRateLimits limits;
    uint64_t revision = 0;
  };

  uint64_t revision_;
  std::map<CommId, SentLimit> sent_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATES_SENT_LIMITS_H_
