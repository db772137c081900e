// Lanes of rings that are not up, or do not leave from the source port that the strategy in force
// has for them.
#ifndef MCCS_TESTS_SIM_MISPLACED_LANES_H_
#define MCCS_TESTS_SIM_MISPLACED_LANES_H_

#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "controller/registry.h"
#include "tests/sim/sim_control.h"

namespace mccs {

// The first of these communicators' lanes that is so, by what the daemons reported last; empty:
// there is none. Lanes that want the same port towards the same host cannot all have it (operators
// may want that), and none of them is looked at. REQUIRES: `registry` knows all of `running`, whose
// hosts are "h0", "h1", … by their index in the world.
std::string MisplacedLane(const Registry& registry, const SimControl& control,
                          const std::vector<CommId>& running);

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_MISPLACED_LANES_H_
