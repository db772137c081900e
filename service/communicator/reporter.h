// What a communicator reports to the controller about itself: at changes, and now and then while it
// works.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_REPORTER_H_
#define MCCS_SERVICE_COMMUNICATOR_REPORTER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/call_options.h"
#include "service/communicator/activity_log.h"
#include "service/communicator/forming.h"
#include "service/work_tally.h"

namespace mccs {

// Since the start, on this host.
struct WorkDone {
  uint64_t operations = 0;
  uint64_t bytes = 0;
  CallsWithOptions with_options;
  uint64_t captured_groups = 0;  // not done, but to be done at any time
};

class Reporter {
 public:
  // LIFETIME: all of them outlive this.
  Reporter(const CommunicatorEnvironment& environment, const Formation& formation,
           const WorkTally& tally, const ActivityLog& activity)
      : env_(environment), formation_(formation), tally_(tally), activity_(activity) {}

  // Why the controller's last proposal did not come into force, and the newest epoch that was given
  // up: part of reports from here on.
  void SetChangeTrouble(const std::string& why, Epoch refused) {
    change_trouble_ = why;
    refused_epoch_ = refused;
  }
  const std::string& change_trouble() const { return change_trouble_; }
  Epoch refused_epoch() const { return refused_epoch_; }

  // Reports at once. A communicator that never had a strategy is nobody's business.
  // `held_up`: who waits for whom, where an operation does not get on.
  void Report(const WorkDone& work, const absl::Status& failure, const std::string& held_up = "");
  // Reports if there is news and the last report is old enough.
  void Poll(const WorkDone& work, const std::string& held_up);
  MonotonicNs NextDeadline(uint64_t operations) const;

  // The communicator is no more. `failure` OK: it was destroyed. Also of one that failed before it
  // had a strategy: it may have been announced.
  void End(const absl::Status& failure);

 private:
  // Of an operation that takes long, lanes are told as it gets on: who looks at them would see them
  // stand still.
  bool HasNews(uint64_t operations) const {
    return operations != reported_operations_ || activity_.busy();
  }

  const CommunicatorEnvironment& env_;
  const Formation& formation_;
  const WorkTally& tally_;
  const ActivityLog& activity_;
  MonotonicNs next_ = 0;
  uint64_t reported_operations_ = 0;
  std::string change_trouble_;
  Epoch refused_epoch_{0};
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_REPORTER_H_
