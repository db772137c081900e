// Tracks the rate limits that daemons were sent, and computes which updates are needed.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_PACE_BOOK_H_
#define MCCS_CONTROLLER_PACE_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "controller/policy/shares.h"
#include "controller/registry.h"
#include "proto/agent.pb.h"

namespace mccs {

class PaceBook {
 public:
  // New revisions are higher than `last_revision`, the highest of earlier controllers.
  explicit PaceBook(uint64_t last_revision) : revision_(last_revision) {}

  // Sets the current limits; those of communicators not in `planned` are dropped. Returns the
  // changes, one per communicator, for all of its hosts. If `lifts`, includes each communicator
  // without a limit that this object has not sent one: an earlier controller may have. Windows are
  // on the controller's clock.
  std::vector<agent::Pace> Update(const std::vector<PlannedPace>& planned, bool lifts);

  // The limits of communicators with ranks on `host`: for a daemon that has lost them.
  std::vector<agent::Pace> HeldOn(const std::string& host,
                                  const std::map<CommId, CommunicatorRecord>& communicators) const;

 private:
  struct Told {
    PlannedPace pace;
    uint64_t revision = 0;
  };

  uint64_t revision_;
  std::map<CommId, Told> told_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PACE_BOOK_H_
