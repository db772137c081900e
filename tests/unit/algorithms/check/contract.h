// The contract of each collective: its required inputs and results.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_CONTRACT_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_CONTRACT_H_

#include "algorithms/plan.h"

namespace mccs::check {

// Whether the kind has a contract in this file.
bool HasContract(OpKind kind);
// Whether the collective may be called in place.
bool HasInPlaceForm(OpKind kind);
// Whether `rank` provides block `block` as input. If the kind reduces, that input is then part of
// that block of every result.
bool ProvidesInput(const Plan& plan, Rank rank, int32_t block);
// Whether `rank` must get a result in block `block` of its output.
bool RequiresOutput(const Plan& plan, Rank rank, int32_t block);

// A block of a rank's input.
struct InputBlock {
  Rank rank;
  int32_t block = 0;
};
// For kinds that do not reduce: the source of block `block` of `rank`'s output.
// REQUIRES: RequiresOutput(plan, rank, block).
InputBlock SourceOf(const Plan& plan, Rank rank, int32_t block);

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_CONTRACT_H_
