// Policy: where links cannot be had alone, others send while the favoured tenants' jobs compute
// (source: time windows, TS, in "MCCS", SIGCOMM 2024, policy 4). Flows are placed as priority_flow
// places them, with links that are reserved where the operator names any. The published policy has
// the period measured beforehand; here it is found in what daemons report
// (controller/policy/period.h).
//
// Pure.
#ifndef MCCS_CONTROLLER_POLICY_TIME_WINDOWS_H_
#define MCCS_CONTROLLER_POLICY_TIME_WINDOWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"
#include "controller/policy/period.h"
#include "controller/policy/planned_windows.h"

namespace mccs {

inline constexpr char kTimeWindowsName[] = "time_windows";

// A communicator that is to wait for others.
struct WaitRule {
  CommId waits;
  std::vector<CommId> favoured;    // by id
  std::vector<std::string> hosts;  // of the one that waits

  friend bool operator==(const WaitRule&, const WaitRule&) = default;
};

// By communicator of `view`: the tenants that its Policy favours, null where that is not
// time_windows. Each such communicator waits for those of other tenants, favoured by its Policy,
// with whom it shares a direction of a link; which of them it does where the path of a lane is not
// known is not known, and it waits. Lanes of trees and direct plans count nothing.
std::vector<WaitRule> WhoWaits(const ClusterView& view, const Fabrics& fabrics,
                               const std::vector<const std::vector<std::string>*>& favoured);

// When somebody may send whose clocks are `clock_error_ns` wrong at most: from the end of each
// burst of the favoured to a while before the next, which leaves room for what is wrong about both
// and for what is on the way. kNotFound: their pauses are too short for that, with the numbers.
absl::StatusOr<PlannedWindows> WindowsBetween(const Period& favoured, int64_t clock_error_ns);

// Whether those who were told `told` need not be told `fresh`: for `horizon_ns` from now on the
// one's windows begin and end about where the other's do.
bool IsNearlyTheSame(const PlannedWindows& told, const PlannedWindows& fresh, MonotonicNs now,
                     int64_t horizon_ns);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_TIME_WINDOWS_H_
