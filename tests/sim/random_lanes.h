// Checks where the lanes of the random world's jobs are.
#ifndef MCCS_TESTS_SIM_RANDOM_LANES_H_
#define MCCS_TESTS_SIM_RANDOM_LANES_H_

#include <string>
#include <vector>

#include "base/ids.h"
#include "controller/state/registry.h"
#include "tests/sim/sim_control.h"

namespace mccs {

// The first lane of a ring of these communicators that is not up or does not leave from the source
// port of the current strategy, by the daemons' last reports; empty: none. Lanes that want the same
// port towards the same host (operators may configure that) cannot all have it and are not checked.
// REQUIRES: `registry` knows all of `running`, whose hosts are "h0", "h1", … by their index in the
// world.
std::string MisplacedLane(const Registry& registry, const SimControl& control,
                          const std::vector<CommId>& running);

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_LANES_H_
