// The windows of communicators that wait for favoured ones (controller/policy/time_windows.h):
// follows what hosts report of the favoured, and says when windows have to be told anew.
//
// Of a favoured communicator's hosts the one counts that works least: an operation begins on a host
// when that host's ranks have called it, and bytes are on the way when all have. Where somebody
// waits for several communicators, they are taken as one job.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_WINDOW_KEEPER_H_
#define MCCS_CONTROLLER_WINDOW_KEEPER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "controller/host_clocks.h"
#include "controller/policy/shares.h"
#include "controller/policy/time_windows.h"
#include "proto/agent.pb.h"

namespace mccs {

class WindowKeeper {
 public:
  // Somebody goes by a period for so long before it is looked for again: reports come as often, and
  // take a while.
  static constexpr int64_t kHorizonNs = 750 * kNsPerMs;
  // A job of which nothing is heard has stopped after two periods and this.
  static constexpr int64_t kPatienceNs = 3 * kNsPerSec / 2;
  // Windows are told anew at least so often, as clocks drift.
  static constexpr int64_t kRenewNs = 10 * kNsPerSec;

  explicit WindowKeeper(Log* log) : log_(log) {}

  // These hold from now on.
  void SetRules(std::vector<WaitRule> rules);
  // True: it is of a favoured communicator, so Update may change something.
  bool Hear(const std::string& host, const agent::Report& report);
  bool Forget(CommId ended);

  // Looks again at those of whom something was heard since the last call, or at all. True where
  // somebody's windows are other ones now.
  bool Update(MonotonicNs now, const HostClocks& clocks);
  bool UpdateAll(MonotonicNs now, const HostClocks& clocks);

  // Sets the windows of those who have any.
  void ApplyTo(std::vector<PlannedPace>* paces) const;
  // For people, of the communicator that FormatCommId calls `id`: when it may send, or why at any
  // time. Empty: it waits for nobody.
  std::string Describe(const std::string& id) const;

 private:
  struct Record {  // of one host, on its own clock
    std::vector<WorkSpan> spans;
    bool goes_on = false;
    MonotonicNs measured = 0;
    int64_t busy_ns = 0;
  };
  // What the favoured do, on the controller's clock.
  struct Rhythm {
    Period period;
    int64_t clock_error_ns = 0;
  };
  struct Held {
    std::optional<PlannedWindows> windows;
    MonotonicNs since = 0;
    std::string text = {};  // for people
  };

  absl::StatusOr<Rhythm> RhythmOf(const std::vector<CommId>& favoured, MonotonicNs now,
                                  const HostClocks& clocks) const;
  absl::StatusOr<PlannedWindows> WindowsFor(const WaitRule& rule,
                                            const absl::StatusOr<Rhythm>& rhythm, MonotonicNs now,
                                            const HostClocks& clocks) const;
  // True: `held` has changed.
  bool Hold(const WaitRule& rule, const absl::StatusOr<PlannedWindows>& fresh, MonotonicNs now,
            Held* held);

  Log* const log_;
  std::vector<WaitRule> rules_;
  std::set<CommId> favoured_;
  std::map<CommId, std::map<std::string, Record>> records_;  // of the favoured, by host
  std::set<CommId> news_;                                    // of whom something was heard
  std::map<CommId, Held> held_;                              // of those who wait
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_WINDOW_KEEPER_H_
