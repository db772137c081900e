// The exported functions that are supported, except the collectives: thin wrappers of group and
// lifecycle.
//
// ncclGetVersion returns the version of the header of this build (2.28.9), whose functions a
// program may expect. Newer functions are exported too, because a framework built with them would
// not load otherwise, but most of them only return an error.
#include <nccl.h>

#include <mutex>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "shim/api/exported.h"
#include "shim/calls/lifecycle.h"
#include "shim/config/diagnostics.h"
#include "shim/daemon/error_message.h"
#include "shim/process/group.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

bool IsFirstCallOf(const char* function) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::string_view>;  // never destroyed
  std::lock_guard lock(mutex);
  return seen->insert(function).second;
}

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

int ReportUnsupported(const char* function, const char* reason) {
  const absl::Status status =
      absl::UnimplementedError(absl::StrCat(function, " is not supported by MCCS: ", reason));
  if (Group::OfThisThread().open()) Group::OfThisThread().AddError(status);
  // On stderr, because a program may replace ncclGetLastError (nccl-tests does) and print its table
  // on stdout.
  const std::string_view text(status.message().data(), status.message().size());
  if (IsLogged(Verbosity::kWarn) && IsFirstCallOf(function)) {
    LogLineTo(DebugStreamIsFile() ? DebugStream() : stderr, Verbosity::kWarn, text);
  }
  return StoreLastError(status);
}

}  // namespace mccs::shim

namespace shim = mccs::shim;

// ---- Init and destruction --------------------------------------------------------------------

MCCS_EXPORT(ncclResult_t, ncclGetUniqueId)(ncclUniqueId* id) { return shim::MakeUniqueId(id); }

MCCS_EXPORT(ncclResult_t, ncclCommInitRank)
(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return shim::InitRank({"ncclCommInitRank", comm, ranks, &id, rank, nullptr});
}

MCCS_EXPORT(ncclResult_t, ncclCommInitRankConfig)
(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return shim::InitRank({"ncclCommInitRankConfig", comm, ranks, &id, rank, config});
}

MCCS_EXPORT(ncclResult_t, ncclCommInitAll)(ncclComm_t* comms, int count, const int* devices) {
  return shim::InitAll(comms, count, devices);
}

MCCS_EXPORT(ncclResult_t, ncclCommFinalize)(ncclComm_t comm) { return shim::Finalize(comm); }

MCCS_EXPORT(ncclResult_t, ncclCommDestroy)(ncclComm_t comm) { return shim::Destroy(comm); }

MCCS_EXPORT(ncclResult_t, ncclCommAbort)(ncclComm_t comm) { return shim::Abort(comm); }

// ---- Queries ---------------------------------------------------------------------------------

MCCS_EXPORT(ncclResult_t, ncclGetVersion)(int* version) {
  if (version == nullptr) return shim::ReportArgumentError("ncclGetVersion: version is NULL");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

MCCS_EXPORT(const char*, ncclGetErrorString)(ncclResult_t result) {
  return shim::DescribeResult(result);
}

MCCS_EXPORT(const char*, ncclGetLastError)(ncclComm_t handle) {
  return shim::LastErrorMessage(handle);
}

MCCS_EXPORT(ncclResult_t, ncclCommGetAsyncError)(ncclComm_t handle, ncclResult_t* error) {
  return shim::QueryCommunicator("ncclCommGetAsyncError", handle, error,
                                 [](shim::Communicator& comm) {
                                   const ncclResult_t result = comm.AsyncResult();
                                   if (result != ncclSuccess) [[unlikely]]
                                     shim::RecordFailure(comm);
                                   return result;
                                 });
}

MCCS_EXPORT(ncclResult_t, ncclCommCount)(const ncclComm_t handle, int* count) {
  return shim::QueryNumber("ncclCommCount", handle, count, &shim::Communicator::ranks);
}

MCCS_EXPORT(ncclResult_t, ncclCommCuDevice)(const ncclComm_t handle, int* device) {
  return shim::QueryCommunicator("ncclCommCuDevice", handle, device,
                                 [](shim::Communicator& comm) { return comm.device(); });
}

MCCS_EXPORT(ncclResult_t, ncclCommUserRank)(const ncclComm_t handle, int* rank) {
  return shim::QueryNumber("ncclCommUserRank", handle, rank, &shim::Communicator::rank);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
MCCS_EXPORT(void, ncclResetDebugInit)() { shim::ReloadVerbosity(); }
#pragma GCC diagnostic pop

// ---- Groups ----------------------------------------------------------------------------------

MCCS_EXPORT(ncclResult_t, ncclGroupStart)() {
  shim::Group::OfThisThread().Start();
  return ncclSuccess;
}

MCCS_EXPORT(ncclResult_t, ncclGroupEnd)() {
  const shim::Group::Outcome outcome = shim::Group::OfThisThread().End();
  if (!outcome.status.ok()) return shim::Report(outcome.status);
  return outcome.in_progress ? ncclInProgress : ncclSuccess;
}

// The group ends regardless of `info`'s contents. NULL is accepted; an inner level ignores `info`.
MCCS_EXPORT(ncclResult_t, ncclGroupSimulateEnd)(ncclSimInfo_t* info) {
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
