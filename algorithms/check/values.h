// The symbolic run: what every rank ends up with, as expressions over the ranks' inputs.
#ifndef MCCS_ALGORITHMS_CHECK_VALUES_H_
#define MCCS_ALGORITHMS_CHECK_VALUES_H_

#include "absl/status/status.h"
#include "algorithms/check/channel_events.h"
#include "algorithms/check/memory.h"

namespace mccs::check {

// Every output of every rank has what the collective promises, and the same expression everywhere.
// REQUIRES: events.CheckProgress() and memory.CheckRaces() were OK.
absl::Status CheckValues(const Question& question, const ChannelEvents& events,
                         const Memory& memory);

}  // namespace mccs::check

#endif  // MCCS_ALGORITHMS_CHECK_VALUES_H_
