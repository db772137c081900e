// ncclRedOpCreatePreMulSum and ncclRedOpDestroy.
// THREAD: any.
#ifndef MCCS_SHIM_CALLS_OPERATOR_CALLS_H_
#define MCCS_SHIM_CALLS_OPERATOR_CALLS_H_

#include <nccl.h>

namespace mccs::shim {

// Type and residence are plain numbers, because a program may pass any value.
struct PreMulSumCall {
  ncclRedOp_t* op;
  const void* scalar;
  int type;       // ncclDataType_t
  int residence;  // ncclScalarResidence_t
  ncclComm_t comm;
};
ncclResult_t CreatePreMulSum(const PreMulSumCall& call);
ncclResult_t DestroyOperator(int op, ncclComm_t comm);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CALLS_OPERATOR_CALLS_H_
