// Derived communicators: the implementation of ncclCommSplit, ncclCommShrink and ncclCommGrow.
#ifndef MCCS_SHIM_CALLS_DERIVED_COMMUNICATORS_H_
#define MCCS_SHIM_CALLS_DERIVED_COMMUNICATORS_H_

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

struct ShrinkCall {
  ncclComm_t comm;
  const int* excluded;
  int count;
  ncclComm_t* newcomm;
  const ncclConfig_t* config;
  int flags;  // NCCL_SHRINK_…
};
ncclResult_t Shrink(const ShrinkCall& call);

// The id that new ranks, and one old rank, pass to ncclCommGrow.
ncclResult_t MakeGrowId(ncclComm_t comm, ncclUniqueId* id);

struct GrowCall {
  ncclComm_t comm;  // NULL: a new rank
  int ranks;
  const ncclUniqueId* id;  // NULL: an old rank without the id
  int rank;                // of a new rank; -1
  ncclComm_t* newcomm;
  const ncclConfig_t* config;
};
ncclResult_t Grow(const GrowCall& call);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CALLS_DERIVED_COMMUNICATORS_H_
