// The loops behind the host-memory device: one MemOp, from start to end, in the calling thread.
//
// The loops are compiled for several instruction sets (Highway); the best that this machine has is
// chosen at run time. Results do not depend on the choice.
#ifndef MCCS_SERVICE_DEVICE_MEM_OP_KERNELS_H_
#define MCCS_SERVICE_DEVICE_MEM_OP_KERNELS_H_

#include <string>

#include "service/device/mem_op.h"

namespace mccs {

// Does `op`. THREAD: any; different threads may run different operations at once.
// REQUIRES: what MemOp requires; a divisor only for integers, and not 0. (Violations abort.)
// ENSURES: everything is written when it returns, non-temporal stores included.
void RunMemOp(const MemOp& op);

// "AVX3": the instruction set in use, by Highway's name.
std::string KernelTargetName();

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEM_OP_KERNELS_H_
