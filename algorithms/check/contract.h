// What each collective promises: who gives which inputs and what must come out.
#ifndef MCCS_ALGORITHMS_CHECK_CONTRACT_H_
#define MCCS_ALGORITHMS_CHECK_CONTRACT_H_

#include "algorithms/plan.h"

namespace mccs::check {

// True for the kinds whose contract is written down here.
bool HasContract(OpKind kind);
// Whether `rank` brings block `block` along as input. It is then part of that block of every
// result.
bool GivesInput(const Plan& plan, Rank rank, int32_t block);
// Whether `rank` must find a result in block `block` of its output.
bool GetsOutput(const Plan& plan, Rank rank, int32_t block);

}  // namespace mccs::check

#endif  // MCCS_ALGORITHMS_CHECK_CONTRACT_H_
