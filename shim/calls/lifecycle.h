// The start, pause and end of communicators: the implementation of ncclGetUniqueId, ncclCommInit…,
// ncclCommFinalize, ncclCommDestroy, ncclCommAbort, ncclCommRevoke, ncclCommSuspend and
// ncclCommResume.
#ifndef MCCS_SHIM_CALLS_LIFECYCLE_H_
#define MCCS_SHIM_CALLS_LIFECYCLE_H_

#include <nccl.h>

#include <chrono>
#include <string_view>

namespace mccs::shim {

// The daemon creates a unique id without other hosts.
inline constexpr std::chrono::seconds kUniqueIdTimeout{5};

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

// These accept NULL.
ncclResult_t Finalize(ncclComm_t comm);
ncclResult_t Destroy(ncclComm_t comm);
ncclResult_t Abort(ncclComm_t comm);
// `flags`: NCCL_REVOKE_DEFAULT, 0.
ncclResult_t Revoke(ncclComm_t comm, int flags);
// `flags`: NCCL_SUSPEND_MEM, 1.
ncclResult_t Suspend(ncclComm_t comm, int flags);
ncclResult_t Resume(ncclComm_t comm);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CALLS_LIFECYCLE_H_
