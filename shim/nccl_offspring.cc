// The exported functions that make communicators of others.
#include <nccl.h>

#include "shim/exported.h"
#include "shim/offspring.h"

namespace shim = mccs::shim;

MCCS_EXPORT ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                        ncclConfig_t* config) {
  return shim::Split({comm, color, key, newcomm, config});
}
MCCS_ALSO_WEAK(ncclCommSplit);
