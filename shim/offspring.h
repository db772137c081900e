// Communicators that are made of others: what stands behind ncclCommSplit.
#ifndef MCCS_SHIM_OFFSPRING_H_
#define MCCS_SHIM_OFFSPRING_H_

#include <nccl.h>

namespace mccs::shim {

struct SplitCall {
  ncclComm_t comm;
  int color;
  int key;
  ncclComm_t* newcomm;
  const ncclConfig_t* config;  // NULL: the parent's
};
ncclResult_t Split(const SplitCall& call);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_OFFSPRING_H_
