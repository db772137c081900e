// The exported functions that are supported, except the collectives: thin wrappers of group and
// lifecycle.
//
// ncclGetVersion returns the version of the header of this build (2.28.9), whose functions a
// program may expect. Newer functions are exported too, because a framework built with them would
// not load otherwise, but most of them only return an error.
#include <nccl.h>

#include "absl/strings/str_cat.h"
#include "shim/api/exported.h"
#include "shim/calls/lifecycle.h"
#include "shim/calls/memory.h"
#include "shim/calls/operator_calls.h"
#include "shim/config/diagnostics.h"
#include "shim/daemon/error_message.h"
#include "shim/process/group.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

ncclResult_t ReportArgumentError(std::string_view text) {
  return Report(absl::InvalidArgumentError(absl::string_view(text.data(), text.size())));
}

// Reads a property of a handle's communicator into `*answer`, or returns an error.
template <typename Answer, typename Ask>
ncclResult_t QueryCommunicator(const char* function, ncclComm_t handle, Answer* answer, Ask ask) {
  if (answer == nullptr) {
    return ReportArgumentError(absl::StrCat(function, ": output pointer is NULL"));
  }
  const absl::StatusOr<CommRef> comm = FindCommunicator(function, handle);
  if (!comm.ok()) return Report(comm.status());
  *answer = ask(**comm);
  return ncclSuccess;
}

// Its size or rank, once it is ready: the daemon's reply contains them for a derived communicator.
ncclResult_t QueryNumber(const char* function, ncclComm_t handle, int* answer,
                         int (Communicator::*ask)() const) {
  bool known = true;
  const ncclResult_t result = QueryCommunicator(function, handle, answer, [&](Communicator& comm) {
    known = comm.AsyncResult() != ncclInProgress && comm.ranks() != 0;
    return (comm.*ask)();
  });
  if (result != ncclSuccess || known) return result;
  return ReportArgumentError(
      absl::StrCat(function, ": the communicator is not ready; poll ncclCommGetAsyncError"));
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

// ---- Init and destruction --------------------------------------------------------------------

MCCS_EXPORT ncclResult_t pncclGetUniqueId(ncclUniqueId* id) { return shim::MakeUniqueId(id); }
MCCS_ALSO_WEAK(ncclGetUniqueId);

MCCS_EXPORT ncclResult_t pncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return shim::InitRank({"ncclCommInitRank", comm, ranks, &id, rank, nullptr});
}
MCCS_ALSO_WEAK(ncclCommInitRank);

MCCS_EXPORT ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                                 int rank, ncclConfig_t* config) {
  return shim::InitRank({"ncclCommInitRankConfig", comm, ranks, &id, rank, config});
}
MCCS_ALSO_WEAK(ncclCommInitRankConfig);

MCCS_EXPORT ncclResult_t pncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return shim::InitAll(comms, count, devices);
}
MCCS_ALSO_WEAK(ncclCommInitAll);

MCCS_EXPORT ncclResult_t pncclCommFinalize(ncclComm_t comm) { return shim::Finalize(comm); }
MCCS_ALSO_WEAK(ncclCommFinalize);

MCCS_EXPORT ncclResult_t pncclCommDestroy(ncclComm_t comm) { return shim::Destroy(comm); }
MCCS_ALSO_WEAK(ncclCommDestroy);

MCCS_EXPORT ncclResult_t pncclCommAbort(ncclComm_t comm) { return shim::Abort(comm); }
MCCS_ALSO_WEAK(ncclCommAbort);

// ---- Queries ---------------------------------------------------------------------------------

MCCS_EXPORT ncclResult_t pncclGetVersion(int* version) {
  if (version == nullptr) return shim::ReportArgumentError("ncclGetVersion: version is NULL");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
MCCS_ALSO_WEAK(ncclGetVersion);

MCCS_EXPORT const char* pncclGetErrorString(ncclResult_t result) {
  return shim::DescribeResult(result);
}
MCCS_ALSO_WEAK(ncclGetErrorString);

MCCS_EXPORT const char* pncclGetLastError(ncclComm_t handle) {
  return shim::LastErrorMessage(handle);
}
MCCS_ALSO_WEAK(ncclGetLastError);

MCCS_EXPORT ncclResult_t pncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return shim::QueryCommunicator("ncclCommGetAsyncError", handle, error,
                                 [](shim::Communicator& comm) {
                                   const ncclResult_t result = comm.AsyncResult();
                                   if (result != ncclSuccess) [[unlikely]]
                                     shim::RecordFailure(comm);
                                   return result;
                                 });
}
MCCS_ALSO_WEAK(ncclCommGetAsyncError);

MCCS_EXPORT ncclResult_t pncclCommCount(const ncclComm_t handle, int* count) {
  return shim::QueryNumber("ncclCommCount", handle, count, &shim::Communicator::ranks);
}
MCCS_ALSO_WEAK(ncclCommCount);

MCCS_EXPORT ncclResult_t pncclCommCuDevice(const ncclComm_t handle, int* device) {
  return shim::QueryCommunicator("ncclCommCuDevice", handle, device,
                                 [](shim::Communicator& comm) { return comm.device(); });
}
MCCS_ALSO_WEAK(ncclCommCuDevice);

MCCS_EXPORT ncclResult_t pncclCommUserRank(const ncclComm_t handle, int* rank) {
  return shim::QueryNumber("ncclCommUserRank", handle, rank, &shim::Communicator::rank);
}
MCCS_ALSO_WEAK(ncclCommUserRank);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
MCCS_EXPORT void pncclResetDebugInit() { shim::ReloadVerbosity(); }
MCCS_ALSO_WEAK(ncclResetDebugInit);
#pragma GCC diagnostic pop

// ---- Groups ----------------------------------------------------------------------------------

MCCS_EXPORT ncclResult_t pncclGroupStart() {
  shim::Group::OfThisThread().Start();
  return ncclSuccess;
}
MCCS_ALSO_WEAK(ncclGroupStart);

MCCS_EXPORT ncclResult_t pncclGroupEnd() {
  const shim::Group::Outcome outcome = shim::Group::OfThisThread().End();
  if (!outcome.status.ok()) return shim::Report(outcome.status);
  return outcome.in_progress ? ncclInProgress : ncclSuccess;
}
MCCS_ALSO_WEAK(ncclGroupEnd);

// The group ends regardless of `info`'s contents. NULL is accepted; an inner level ignores `info`.
MCCS_EXPORT ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  constexpr ncclSimInfo_t kInitial = NCCL_SIM_INFO_INITIALIZER;
  const bool initialised =
      info != nullptr && info->magic == kInitial.magic && info->size >= sizeof(*info);
  shim::Group& group = shim::Group::OfThisThread();
  const auto estimate = group.SimulateEnd(/*wanted=*/initialised);
  if (!estimate.ok()) return shim::Report(estimate.status());
  if (info == nullptr || group.open()) return ncclSuccess;
  if (!initialised) {
    return shim::ReportArgumentError(
        "ncclGroupSimulateEnd: the ncclSimInfo_t is not initialised: assign "
        "NCCL_SIM_INFO_INITIALIZER to it first");
  }
  info->estimatedTime = static_cast<float>(**estimate);
  return ncclSuccess;
}
MCCS_ALSO_WEAK(ncclGroupSimulateEnd);

// ---- Reduction operators ------------------------------------------------------------------------

MCCS_EXPORT ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                   ncclDataType_t type,
                                                   ncclScalarResidence_t residence,
                                                   ncclComm_t comm) {
  return shim::CreatePreMulSum({op, scalar, type, residence, comm});
}
MCCS_ALSO_WEAK(ncclRedOpCreatePreMulSum);

MCCS_EXPORT ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return shim::DestroyOperator(op, comm);
}
MCCS_ALSO_WEAK(ncclRedOpDestroy);

// ---- Memory -----------------------------------------------------------------------------------

MCCS_EXPORT ncclResult_t pncclMemAlloc(void** memory, size_t bytes) {
  return shim::AllocateMemory(memory, bytes);
}
MCCS_ALSO_WEAK(ncclMemAlloc);

MCCS_EXPORT ncclResult_t pncclMemFree(void* memory) { return shim::FreeMemory(memory); }
MCCS_ALSO_WEAK(ncclMemFree);
