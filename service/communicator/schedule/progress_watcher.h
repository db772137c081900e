// Detects a collective that all ranks have entered, as far as is known, and that makes no progress
// on this host. Reports the hosts for which it waits here, and for what. Each host watches its own
// lanes, so no messages are needed, and a host that does not respond hides nothing. Hosts behind
// the cause of a stall wait, too: for the data of the host before them.
//
// Costs a comparison per turn while operations progress. A check of a stalled one looks at its
// lanes in parts: a direct plan has two for each other host and channel.
//
// OWNER: the ActiveWork. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_PROGRESS_WATCHER_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_PROGRESS_WATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/schedule/operation_loop.h"
#include "service/stalls.h"

namespace mccs {

class ProgressWatcher {
 public:
  // A check begins when no slice has moved for this time. A slow lane may still move a part of one:
  // the next check compares the bytes. It is later than HangWatcher knows that ranks are missing.
  static constexpr int64_t kAfterNs = kStalledAfterNs;
  static constexpr int64_t kCheckEveryNs = kStalledAfterNs / 4;
  // Lanes at which a turn looks.
  static constexpr size_t kLanesPerTurn = 1024;

  struct Options {
    const Membership* members;
    Log* log;
    std::string name;  // of the communicator, for the log
  };
  // LIFETIME: members and log outlive this.
  explicit ProgressWatcher(Options options) : options_(std::move(options)) {}

  // `ranks_missing`: the operation waits for ranks that have not entered it (HangWatcher). Returns
  // true if stalled_on(), or what is awaited, has changed.
  bool Poll(MonotonicNs now, const OperationLoop& loop, bool ranks_missing);

  // The operation, and for what it waits; empty when it does not stall.
  const std::string& stalled_on() const { return report_.text; }
  // Those hosts; of very many, the first ones.
  const std::vector<AwaitedHost>& awaited() const { return report_.hosts; }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const { return check_at_; }
  // The cost (turn_cost.h) of the checks so far.
  int64_t cost() const { return cost_; }

 private:
  struct Report {
    std::string text;
    std::vector<AwaitedHost> hosts;
  };
  // A check of all lanes, over one or more turns.
  struct Check {
    Check() {}

    size_t next = 0;  // lane
    std::set<StalledPeer> found;
    uint64_t moved_bytes = 0;  // of all lanes
  };

  // Slices move, or nothing runs. Returns true if that is new.
  bool Clear();
  // Nothing stalls, as far as is known. Likewise.
  bool ClearReport();
  // Looks at lanes. Returns true when the check is complete.
  bool LookAtLanes(const OperationLoop& loop);
  bool CompleteCheck(MonotonicNs now, const OperationLoop& loop);

  // Of a lane that is looked at: about 50 ns; and of one that waits: about 0.3 µs.
  static constexpr int64_t kCostPerLook = 500;
  static constexpr int64_t kCostPerWait = 3 << 10;

  const Options options_;
  int64_t cost_ = 0;
  uint64_t progress_ = 0;                // OperationLoop::progress() at the last turn
  MonotonicNs since_ = 0;                // since when it is the same; 0: nothing runs
  MonotonicNs check_at_ = kNever;        // not before since_ + kAfterNs
  std::optional<Check> check_;           // that runs
  std::optional<uint64_t> moved_bytes_;  // at the last check since since_
  Report report_;
  RepeatedMessage in_log_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_PROGRESS_WATCHER_H_
