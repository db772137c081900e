// The symbolic run: the results of all ranks, as expressions over the ranks' inputs.
#ifndef MCCS_ALGORITHMS_CHECK_VALUES_H_
#define MCCS_ALGORITHMS_CHECK_VALUES_H_

#include "absl/status/status.h"
#include "algorithms/check/channel_events.h"
#include "algorithms/check/memory.h"

namespace mccs::check {

// Checks that every output of every rank has the contract's value, with the same expression on all
// ranks. REQUIRES: events.CheckProgress() and memory.CheckRaces() returned OK.
absl::Status CheckValues(const ProofInput& proof, const ChannelEvents& events,
                         const Memory& memory);

}  // namespace mccs::check

#endif  // MCCS_ALGORITHMS_CHECK_VALUES_H_
