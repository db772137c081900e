// What each collective promises: who gives which inputs and what must come out.
#ifndef MCCS_ALGORITHMS_CHECK_CONTRACT_H_
#define MCCS_ALGORITHMS_CHECK_CONTRACT_H_

#include "algorithms/plan.h"

namespace mccs::check {

// True for the kinds whose contract is written down here.
bool HasContract(OpKind kind);
// Whether the collective may be called in place.
bool HasInPlaceForm(OpKind kind);
// Whether `rank` brings block `block` along as input. Where the kind reduces, it is then part of
// that block of every result.
bool GivesInput(const Plan& plan, Rank rank, int32_t block);
// Whether `rank` must find a result in block `block` of its output.
bool GetsOutput(const Plan& plan, Rank rank, int32_t block);

// A block of a rank's input.
struct InputBlock {
  Rank rank;
  int32_t block = 0;
};
// Kinds that reduce nothing: what block `block` of `rank`'s output is a copy of.
// REQUIRES: GetsOutput(plan, rank, block).
InputBlock OriginOf(const Plan& plan, Rank rank, int32_t block);

}  // namespace mccs::check

#endif  // MCCS_ALGORITHMS_CHECK_CONTRACT_H_
