// The rate limits that daemons should have, and those that each daemon was sent. TakeUpdates
// compares the two.
//
// clang-format off
//   SetLimits, SetWindows, LiftOldLimits ──► wanted, with a new revision ──┐
//   OnRegistered, OnAnnounced: perhaps not sent yet ───────────────────────┴──TakeUpdates──► messages
// clang-format on
//
// OWNER: ClusterState. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_RATES_SENT_LIMITS_H_
#define MCCS_CONTROLLER_RATES_SENT_LIMITS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "controller/measurement/host_clocks.h"
#include "controller/policy/shares.h"
#include "controller/state/registry.h"
#include "proto/agent.pb.h"

namespace mccs {

// Sets the send windows of `limits`, on the controller's clock.
void PutWindows(const std::optional<PlannedWindows>& windows, agent::v1::RateLimits* limits);

class SentLimits {
 public:
  // New revisions are higher than `last_revision`, the highest of earlier controllers.
  explicit SentLimits(uint64_t last_revision = 0) : revision_(last_revision) {}

  // Sets what daemons should have, windows on the controller's clock. Limits of communicators not
  // in `wanted` are dropped. A communicator without any limit needs no message if none was sent
  // before.
  void SetLimits(std::vector<agent::v1::RateLimits> wanted);
  // Changes the windows of one communicator; ignored if the last SetLimits did not have it.
  void SetWindows(CommId id, const std::optional<PlannedWindows>& windows);
  // From now on, communicators without any limit need a message, too: an earlier controller may
  // have sent them limits.
  void LiftOldLimits();
  // The daemon of `host` has lost its limits.
  void OnRegistered(const std::string& host,
                    const std::map<CommId, CommunicatorRecord>& communicators);
  // A leader announces a communicator, perhaps with other hosts or after it has reconnected.
  void OnAnnounced(CommId id);

  struct Update {
    AgentKey to;
    agent::v1::RateLimits limits;
  };
  // Messages for daemons that were not sent the newest limits: by communicator, then by host in its
  // order. Hosts that are not ready get theirs after OnRegistered. Windows are on the host's clock,
  // and absent if it is not known.
  std::vector<Update> TakeUpdates(const Registry& registry, const HostClocks& clocks,
                                  MonotonicNs now);

 private:
  struct Entry {
    agent::v1::RateLimits wanted;        // without its revision
    uint64_t revision = 0;               // of `wanted`; 0: no message is needed
    std::vector<AgentKey> sent_to = {};  // that have this revision, by position of their host
  };

  void Want(agent::v1::RateLimits limits, Entry* entry);

  uint64_t revision_;
  bool lifts_ = false;
  std::map<CommId, Entry> entries_;
  std::set<CommId> changed_;  // some daemon may need a message
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATES_SENT_LIMITS_H_
