// Reports a communicator's state to the controller: on changes, and periodically while it works.
// The periodic reports of all communicators of a host fall into the same part of each interval, so
// that one message can have them all (AgentTable), but not into the same turn. The controller sets
// the interval (ControllerLink::report_every_ns); another one applies after the next report.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_REPORTER_H_
#define MCCS_SERVICE_COMMUNICATOR_REPORTER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/call_options.h"
#include "service/communicator/links/activity_log.h"
#include "service/communicator/membership/forming.h"
#include "service/counters.h"

namespace mccs {

// Since the start, on this host.
struct WorkDone {
  uint64_t operations = 0;
  uint64_t bytes = 0;
  CallsWithOptions with_options;
  uint64_t captured_groups = 0;  // in live graphs: may run at any time
};

class Reporter {
 public:
  // Time in which the periodic reports of all communicators of a host fall.
  static constexpr int64_t kSpreadNs = 100 * kNsPerMs;

  // LIFETIME: all arguments outlive this.
  Reporter(const CommunicatorEnvironment& environment, const Formation& formation,
           const WorkTally& tally)
      : env_(environment), formation_(formation), tally_(tally) {}

  // Sets why the controller's last proposal was not applied, and the newest rejected epoch. All
  // later reports include them.
  void SetRejection(const std::string& why, Epoch rejected) {
    change_error_ = why;
    rejected_epoch_ = rejected;
  }
  const std::string& change_error() const { return change_error_; }
  Epoch rejected_epoch() const { return rejected_epoch_; }
  // The ranks that wait, and for which others, if an operation stalls. Reported until the
  // communicator fails.
  void SetStalledOn(const std::string& stalled_on) { stalled_on_ = stalled_on; }
  const std::string& stalled_on() const { return stalled_on_; }
  // Why the buffers of collectives are staged in memory of this host; empty: they are not.
  void SetStaged(const std::string& staged) { staged_ = staged; }
  const std::string& staged() const { return staged_; }
  // Records whether work is in flight; see ActivityLog::Update.
  void RecordActivity(bool busy, uint64_t completed, MonotonicNs now) {
    activity_.Update(busy, completed, now);
  }

  // Reports at once. Does nothing if the communicator never had a strategy.
  void Report(const WorkDone& work, const absl::Status& failure);
  // Reports if there is news and the last report is old enough.
  void Poll(const WorkDone& work);
  MonotonicNs NextDeadline(uint64_t operations) const;

  // The communicator has ended. `failure` OK: it was destroyed. Also called for one that failed
  // before it had a strategy, because it may have been announced.
  void End(const absl::Status& failure);

 private:
  // A long operation counts as news while it runs, so that its lanes' progress is visible.
  bool HasNews(uint64_t operations) const {
    return operations != reported_operations_ || activity_.busy();
  }

  // The next time of a periodic report after `now`.
  MonotonicNs NextTime(MonotonicNs now) const;

  const CommunicatorEnvironment& env_;
  const Formation& formation_;
  const WorkTally& tally_;
  ActivityLog activity_;
  MonotonicNs next_ = 0;
  uint64_t reported_operations_ = 0;
  std::string stalled_on_;
  std::string staged_;
  std::string change_error_;
  Epoch rejected_epoch_{0};
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_REPORTER_H_
