// The symbolic run: the results of all ranks, as expressions over the ranks' inputs.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_VALUES_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_VALUES_H_

#include "absl/status/status.h"
#include "tests/unit/algorithms/check/channel_events.h"
#include "tests/unit/algorithms/check/memory.h"

namespace mccs::check {

// Checks that every output of every rank has the contract's value, with the same expression on all
// ranks. REQUIRES: events.CheckProgress() and memory.CheckRaces() returned OK.
absl::Status CheckValues(const ProofInput& proof, const ChannelEvents& events,
                         const Memory& memory);

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_VALUES_H_
