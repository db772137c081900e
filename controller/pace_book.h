// What daemons were told of how fast communicators may send, and so what they still have to be
// told.
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
  // Revisions begin above this one: what an earlier controller gave must be lower.
  explicit PaceBook(uint64_t last_revision) : revision_(last_revision) {}

  // These hold from now on, and those of communicators that are not among them are forgotten.
  // Returns what is new, one for each communicator: it is for all of its hosts. One without any
  // limit, that was told nothing by this book, is told so if `lifts`: an earlier controller may
  // have told it one. Windows are on the controller's clock.
  std::vector<agent::Pace> Update(const std::vector<PlannedPace>& planned, bool lifts);

  // What holds for communicators that have ranks on `host`: for a daemon that has forgotten it.
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
