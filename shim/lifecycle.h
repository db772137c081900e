// How communicators begin and end: what stands behind ncclGetUniqueId, ncclCommInit…,
// ncclCommFinalize, ncclCommDestroy and ncclCommAbort.
#ifndef MCCS_SHIM_LIFECYCLE_H_
#define MCCS_SHIM_LIFECYCLE_H_

#include <nccl.h>

#include <string_view>

namespace mccs::shim {

ncclResult_t MakeUniqueId(ncclUniqueId* id);

struct InitCall {
  std::string_view function;  // "ncclCommInitRank"
  ncclComm_t* comm;
  int ranks;
  const ncclUniqueId* id;
  int rank;
  const ncclConfig_t* config;  // NULL: defaults
};
ncclResult_t InitRank(const InitCall& call);

// `devices` NULL: 0, 1, …, count-1. Joins all ranks at once; the caller's device stays current.
ncclResult_t InitAll(ncclComm_t* comms, int count, const int* devices);

// Each accepts NULL.
ncclResult_t Finalize(ncclComm_t comm);
ncclResult_t Destroy(ncclComm_t comm);
ncclResult_t Abort(ncclComm_t comm);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_LIFECYCLE_H_
