// Plans for memory that lanes cannot reach, such as a GPU's over TCP.
#ifndef MCCS_ALGORITHMS_STAGED_PLAN_H_
#define MCCS_ALGORITHMS_STAGED_PLAN_H_

#include "algorithms/plan.h"

namespace mccs {

// The same work, but every slice is sent from its staging slot and received in its slot; copies
// move it from and to the buffers. Lanes, slices and their order do not change, so the other hosts
// may run plans of either form.
Plan Staged(const Plan& plan);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_STAGED_PLAN_H_
