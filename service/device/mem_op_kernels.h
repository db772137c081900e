// Executes one MemOp on host memory, from start to end, in the calling thread.
//
// The loops are compiled for several instruction sets (Highway), and the best one that this machine
// supports is chosen at run time. Results do not depend on the choice.
#ifndef MCCS_SERVICE_DEVICE_MEM_OP_KERNELS_H_
#define MCCS_SERVICE_DEVICE_MEM_OP_KERNELS_H_

#include <string>

#include "service/device/mem_op.h"

namespace mccs {

// THREAD: any; different threads may run different operations at once.
// REQUIRES: the requirements of MemOp; a divisor only for integers, and not 0. (Violations abort.)
// ENSURES: all destinations are written on return, non-temporal stores included.
void RunMemOp(const MemOp& op);

// Highway's name of the instruction set in use, such as "AVX3".
std::string KernelTargetName();

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEM_OP_KERNELS_H_
