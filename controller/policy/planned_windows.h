// Send windows of a communicator, as a policy plans them.
#ifndef MCCS_CONTROLLER_POLICY_PLANNED_WINDOWS_H_
#define MCCS_CONTROLLER_POLICY_PLANNED_WINDOWS_H_

#include <cstdint>

#include "base/clock.h"

namespace mccs {

// [origin + n × period, … + open) for each whole n, on the controller's clock.
struct PlannedWindows {
  int64_t period_ns = 0;
  MonotonicNs origin = 0;
  int64_t open_ns = 0;

  friend bool operator==(const PlannedWindows&, const PlannedWindows&) = default;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PLANNED_WINDOWS_H_
