// The host's loops of Combine, which are compiled for several instruction sets.
#ifndef MCCS_KERNELS_HOST_COMBINE_H_
#define MCCS_KERNELS_HOST_COMBINE_H_

#include <cstdint>

#include "kernels/elements.h"

namespace mccs::kernels {

// The number of instruction sets that this machine and the program have; at least 1. Number 0 is
// the best one.
uint32_t HostInstructionSets();

// Combine by the loops of one instruction set. The results do not depend on it.
// REQUIRES: set < HostInstructionSets().
void CombineOnHost(uint32_t set, const ElementOp& op, const Source* sources, uint32_t source_count,
                   unsigned char* const* destinations, uint32_t destination_count,
                   uint64_t elements, Team team);

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_HOST_COMBINE_H_
