// Policy: jobs that share links with favoured tenants' jobs send while those compute (source: time
// windows, TS, in "MCCS", SIGCOMM 2024, policy 4). Flows are placed as by priority_flow, with
// reserved links if the operator names any. The published policy measures the period beforehand;
// here it is computed from daemons' reports (controller/policy/period.h).
//
// Pure.
#ifndef MCCS_CONTROLLER_POLICY_TIME_WINDOWS_H_
#define MCCS_CONTROLLER_POLICY_TIME_WINDOWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/policy/period.h"
#include "controller/policy/shares.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

// A communicator that waits for others.
struct WaitRule {
  CommId waits;
  std::vector<CommId> favoured;    // by id
  std::vector<std::string> hosts;  // of `waits`

  friend bool operator==(const WaitRule&, const WaitRule&) = default;
};

// `favoured`: by communicator of `view`, the tenants that its Policy favours; null: its Policy is
// not time_windows. Such a communicator waits for each communicator of a favoured other tenant that
// shares a direction of a link with it. If the path of a lane is not known, it waits. Only ring
// lanes count.
std::vector<WaitRule> FindWaitRules(const ClusterView& view, const Fabrics& fabrics,
                                    const std::vector<const std::vector<std::string>*>& favoured);

// Send windows of a communicator whose clock error is at most `clock_error_ns`: from the end of
// each favoured burst until shortly before the next, with a margin for both errors and for data in
// transit. kNotFound: the pauses are too short; with the numbers.
absl::StatusOr<PlannedWindows> PlanWindows(const Period& favoured, int64_t clock_error_ns);

// Whether hosts that have `sent` do not need `fresh`: for `horizon_ns` from now on, windows of both
// start and end at about the same times.
bool AreClose(const PlannedWindows& sent, const PlannedWindows& fresh, MonotonicNs now,
              int64_t horizon_ns);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_TIME_WINDOWS_H_
