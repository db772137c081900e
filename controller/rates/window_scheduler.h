// Schedules the send windows of communicators that wait for favoured ones
// (controller/policy/time_windows.h): follows hosts' reports on the favoured, and decides when to
// send new windows.
//
// The host of a favoured communicator that works least defines its bursts: an operation starts on a
// host when that host's ranks have called it, but data flows only when all have. If a communicator
// waits for several others, they count as one job.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_RATES_WINDOW_SCHEDULER_H_
#define MCCS_CONTROLLER_RATES_WINDOW_SCHEDULER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "controller/measurement/host_clocks.h"
#include "controller/policy/shares.h"
#include "controller/policy/time_windows.h"
#include "proto/agent.pb.h"
#include "proto/report_interval.h"

namespace mccs {

class WindowScheduler {
 public:
  // Windows are sent again at least this often, since clocks drift.
  static constexpr int64_t kResendNs = 10 * kNsPerSec;

  explicit WindowScheduler(Log* log) : log_(log) {}

  // The interval of daemons' periodic reports has changed.
  void SetReportInterval(int64_t ns) { report_every_ns_ = ns; }
  // How long a period is used before it is computed again.
  int64_t horizon_ns() const { return report_every_ns_ + kReportDelayNs; }
  // A job without reports counts as stopped after two periods plus this time.
  int64_t timeout_ns() const { return 3 * report_every_ns_; }

  // Input of Update. Report and Remove change favoured communicators; others are ignored. Clocks
  // and the time change the windows of all, and SetRules replaces the rules.
  void SetRules(std::vector<WaitRule> rules);
  void Report(const std::string& host, const agent::v1::Report& report);
  void Remove(CommId ended);
  void OnTimePassed() { changed_ = favoured_; }

  // Recomputes the windows whose input has changed since the last call. Returns communicators with
  // other windows than before.
  std::vector<CommId> Update(MonotonicNs now, const HostClocks& clocks);
  // Of a communicator that waits for others; none: it may always send.
  std::optional<PlannedWindows> WindowsOf(CommId id) const;
  // Text for operators: the send window of the communicator that FormatCommId calls `id`, or why it
  // has none. Empty: it waits for no other.
  std::string Describe(const std::string& id) const;

 private:
  struct Record {  // of one host, on its own clock
    std::vector<WorkSpan> spans;
    bool ongoing = false;
    MonotonicNs measured = 0;
    int64_t busy_ns = 0;
  };
  // Bursts of the favoured, on the controller's clock.
  struct BurstPattern {
    Period period;
    int64_t clock_error_ns = 0;
  };
  struct WindowState {
    std::optional<PlannedWindows> windows;
    MonotonicNs since = 0;
    std::string text = {};  // for operators
  };

  absl::StatusOr<BurstPattern> FindBurstPattern(const std::vector<CommId>& favoured,
                                                MonotonicNs now, const HostClocks& clocks) const;
  absl::StatusOr<PlannedWindows> WindowsFor(const WaitRule& rule,
                                            const absl::StatusOr<BurstPattern>& pattern,
                                            MonotonicNs now, const HostClocks& clocks) const;
  // True: `state` has changed.
  bool UpdateState(const WaitRule& rule, const absl::StatusOr<PlannedWindows>& fresh,
                   MonotonicNs now, WindowState* state);

  Log* const log_;
  int64_t report_every_ns_ = kDefaultReportIntervalNs;
  std::vector<WaitRule> rules_;
  std::set<CommId> favoured_;
  std::map<CommId, std::map<std::string, Record>> records_;  // of the favoured, by host
  std::set<CommId> changed_;                                 // communicators with new reports
  std::map<CommId, WindowState> states_;                     // of waiting communicators
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATES_WINDOW_SCHEDULER_H_
