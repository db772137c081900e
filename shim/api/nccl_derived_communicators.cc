// The exported functions that derive communicators, and newer ones that query or pause a
// communicator. Declared here if the header of this build lacks them.
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/api/comm_properties.h"
#include "shim/api/exported.h"
#include "shim/calls/derived_communicators.h"
#include "shim/calls/lifecycle.h"
#include "shim/config/comm_config.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

template <typename... Parts>
ncclResult_t ReportArgumentError(const Parts&... parts) {
  return Report(absl::InvalidArgumentError(absl::StrCat(parts...)));
}

// The communicator of a query, if it is ready.
absl::StatusOr<CommRef> ReadyComm(const char* function, ncclComm_t handle) {
  MCCS_ASSIGN_OR_RETURN(CommRef comm, FindCommunicator(function, handle));
  MCCS_RETURN_IF_ERROR(comm->CheckParent(/*failed_too=*/true));
  return comm;
}

ncclResult_t QueryProperties(ncclComm_t handle, CommProperties* to) {
  if (to == nullptr) return ReportArgumentError("ncclCommQueryProperties: props is NULL");
  if (to->magic != kConfigMagic || to->size < offsetof(CommProperties, device_api)) {
    return ReportArgumentError(
        "ncclCommQueryProperties: props is not initialised: assign "
        "NCCL_COMM_PROPERTIES_INITIALIZER to it first");
  }
  const absl::StatusOr<CommRef> found = ReadyComm("ncclCommQueryProperties", handle);
  if (!found.ok()) return Report(found.status());
  const Communicator& comm = **found;
  CommProperties known{};  // no device API: the tenant's kernels cannot communicate
  known.size = to->size;
  known.magic = to->magic;
  known.version = to->version;
  known.rank = comm.rank();
  known.ranks = comm.ranks();
  known.cuda_device = known.nvml_device = comm.device();
  known.lsa_teams = comm.ranks();  // each rank is a team of its own
  known.comm_hash = comm.id();
  std::memcpy(to, &known, std::min(to->size, sizeof(known)));
  return ncclSuccess;
}

// The daemon owns the communicators' memory. They use the process's GPU memory only to stage
// buffers that cannot be shared, and ncclCommSuspend frees all of that.
ncclResult_t MemStats(ncclComm_t handle, int stat, uint64_t* value) {
  constexpr int kSuspendable = 0;
  constexpr int kSuspended = 1;
  constexpr int kTotal = 3;
  constexpr int kStats = 4;
  if (value == nullptr) return ReportArgumentError("ncclCommMemStats: value is NULL");
  if (stat < 0 || stat >= kStats)
    return ReportArgumentError("ncclCommMemStats: unknown statistic ", stat);
  const absl::StatusOr<CommRef> comm = ReadyComm("ncclCommMemStats", handle);
  if (!comm.ok()) return Report(comm.status());
  *value = stat == kSuspended && (*comm)->suspended() ? 1 : 0;
  if (stat == kSuspendable || stat == kTotal) *value = (*comm)->StagingBytes();
  return ncclSuccess;
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

MCCS_EXPORT(ncclResult_t, ncclCommInitRankScalable)
(ncclComm_t* newcomm, int ranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config) {
  if (ids < 1 || ids > ranks || id == nullptr) {
    if (newcomm != nullptr) *newcomm = nullptr;
    return shim::ReportArgumentError("ncclCommInitRankScalable: nId is ", ids,
                                     "; expected 1 to the number of ranks (", ranks, ")");
  }
  // The rendezvous is between daemons, so one is enough: all ranks use the first id.
  return shim::InitRank({"ncclCommInitRankScalable", newcomm, ranks, id, rank, config});
}

MCCS_EXPORT(ncclResult_t, ncclCommShrink)
(ncclComm_t comm, int* excluded, int count, ncclComm_t* newcomm, ncclConfig_t* config, int flags) {
  return shim::Shrink({comm, excluded, count, newcomm, config, flags});
}

MCCS_EXPORT(ncclResult_t, ncclCommGetUniqueId)(ncclComm_t comm, ncclUniqueId* id) {
  return shim::MakeGrowId(comm, id);
}

MCCS_EXPORT(ncclResult_t, ncclCommGrow)
(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* newcomm,
 ncclConfig_t* config) {
  return shim::Grow({comm, ranks, id, rank, newcomm, config});
}

MCCS_EXPORT(ncclResult_t, ncclCommRevoke)(ncclComm_t comm, int flags) {
  return shim::Revoke(comm, flags);
}

MCCS_EXPORT(ncclResult_t, ncclCommSuspend)(ncclComm_t comm, int flags) {
  return shim::Suspend(comm, flags);
}

MCCS_EXPORT(ncclResult_t, ncclCommResume)(ncclComm_t comm) { return shim::Resume(comm); }

MCCS_EXPORT(ncclResult_t, ncclCommMemStats)(ncclComm_t comm, int stat, uint64_t* value) {
  return shim::MemStats(comm, stat, value);
}

MCCS_EXPORT(ncclResult_t, ncclCommQueryProperties)(ncclComm_t comm, shim::CommProperties* to) {
  return shim::QueryProperties(comm, to);
}

MCCS_EXPORT(ncclResult_t, ncclCommSplit)
(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return shim::Split({comm, color, key, newcomm, config});
}
