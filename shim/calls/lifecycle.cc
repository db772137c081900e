#include "shim/calls/lifecycle.h"

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/config/comm_config.h"
#include "shim/config/diagnostics.h"
#include "shim/config/environment.h"
#include "shim/daemon/error_message.h"
#include "shim/daemon/join_message.h"
#include "shim/daemon/unique_id_env.h"
#include "shim/process/group.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

absl::Status FillUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ArgumentError("ncclGetUniqueId", "uniqueId is NULL");
  if (const auto text = CommIdText()) {
    MCCS_ASSIGN_OR_RETURN(const wire::UniqueId from_text, UniqueIdFromCommId(*text));
    // Looked up here only to report an unknown name where the user set it.
    wire::UniqueId probe = from_text;
    MCCS_RETURN_IF_ERROR(ResolveRendezvous(probe));
    std::memcpy(id, &from_text, sizeof(*id));
    return absl::OkStatus();
  }
  MCCS_ASSIGN_OR_RETURN(DaemonClient * daemon, Process::Get().OpenConnection());
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, daemon->Send(wire::GetUniqueId{}));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, daemon->Await(request, kUniqueIdTimeout));
  MCCS_ASSIGN_OR_RETURN(const auto made, reply.As<wire::UniqueIdReply>());
  std::memcpy(id, made.unique_id, sizeof(*id));
  return absl::OkStatus();
}

// Sets the handle at once: another thread may have to abort a blocking init.
absl::Status Add(std::unique_ptr<Communicator> comm, ncclComm_t* where, Group& group) {
  const bool blocking = comm->blocking();
  return group.AddPendingInit(
      {.comm = std::move(comm), .where = where, .blocking = blocking, .expose_at_once = true});
}

// A communicator on the given device, before its join.
absl::StatusOr<std::unique_ptr<Communicator>> Make(const InitCall& call,
                                                   const DeviceBinding& device) {
  Membership member{.id = {}, .ranks = call.ranks, .rank = Rank(call.rank)};
  MCCS_ASSIGN_OR_RETURN(member.id, OpenUniqueId(*call.id));
  if (member.id.guessable != 0) MCCS_RETURN_IF_ERROR(ResolveRendezvous(member.id));
  JoinOptions options{.before = {},
                      .message = {},
                      .ranks = member.ranks,
                      .rank = member.rank,
                      .device = device,
                      .config = {}};
  MCCS_ASSIGN_OR_RETURN(options.config, ReadCommConfig(call.config));
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  MCCS_ASSIGN_OR_RETURN(options.message, MakeCommInit(*driver, member, device, options.config));
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Process::Get().OpenSession());
  return std::make_unique<Communicator>(std::move(session), std::move(options));
}

absl::Status AddInit(const InitCall& call, Group& group) {
  if (call.comm == nullptr) return ArgumentError(call.function, "comm is NULL");
  *call.comm = nullptr;
  if (call.ranks < 1)
    return ArgumentError(call.function, "nranks is ", call.ranks, "; expected at least 1");
  if (call.rank < 0 || call.rank >= call.ranks) {
    return ArgumentError(call.function, "rank is ", call.rank, "; expected 0 to ", call.ranks - 1);
  }
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  MCCS_ASSIGN_OR_RETURN(const DeviceBinding device, CurrentDevice(*driver));
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> comm, Make(call, device));
  return Add(std::move(comm), call.comm, group);
}

absl::Status CheckDeviceList(const DriverApi& driver, int count, const int* devices) {
  int present = 0;
  if (CUresult error = driver.DeviceGetCount(&present); error != CUDA_SUCCESS) {
    return CudaError(driver, error, "cuDeviceGetCount");
  }
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    const int device = devices == nullptr ? i : devices[i];
    if (device < 0 || device >= present) {
      return ArgumentError("ncclCommInitAll", "CUDA device ", device,
                           " does not exist: expected 0 to ", present - 1);
    }
    if (!seen.insert(device).second && !MultiRankGpuAllowed()) {
      return absl::FailedPreconditionError(
          absl::StrCat("ncclCommInitAll: Duplicate GPU detected: device ", device,
                       " is listed twice; NCCL_MULTI_RANK_GPU_ENABLE=1 allows this"));
    }
  }
  return absl::OkStatus();
}

absl::Status AddInitAll(ncclComm_t* comms, int count, const int* devices, Group& group) {
  if (comms == nullptr) return ArgumentError("ncclCommInitAll", "comm is NULL");
  if (count < 1)
    return ArgumentError("ncclCommInitAll", "ndev is ", count, "; expected at least 1");
  MCCS_ASSIGN_OR_RETURN(const DriverApi* driver, Process::Get().Driver());
  MCCS_RETURN_IF_ERROR(CheckDeviceList(*driver, count, devices));
  ncclUniqueId id;
  MCCS_RETURN_IF_ERROR(FillUniqueId(&id));
  std::vector<std::unique_ptr<Communicator>> made;
  for (int i = 0; i < count; ++i) {
    comms[i] = nullptr;
    MCCS_ASSIGN_OR_RETURN(const DeviceBinding device,
                          DeviceByOrdinal(*driver, devices == nullptr ? i : devices[i]));
    MCCS_ASSIGN_OR_RETURN(auto comm, Make({.function = "ncclCommInitAll",
                                           .comm = &comms[i],
                                           .ranks = count,
                                           .id = &id,
                                           .rank = i,
                                           .config = nullptr},
                                          device));
    made.push_back(std::move(comm));
  }
  for (int i = 0; i < count; ++i) {
    MCCS_RETURN_IF_ERROR(Add(std::move(made[i]), &comms[i], group));
  }
  return absl::OkStatus();
}

// Invalidates the handle; `ref` keeps the communicator until it is ended.
absl::StatusOr<CommRef> RetireHandle(std::string_view function, ncclComm_t handle) {
  HandleTable& handles = Process::Get().handles();
  CommRef comm = handles.Find(handle);
  if (!comm || !handles.Retire(handle)) {
    return ArgumentError(
        function,
        "comm is not a valid communicator; it may already have been destroyed or aborted");
  }
  return comm;
}

}  // namespace

ncclResult_t MakeUniqueId(ncclUniqueId* id) { return Report(FillUniqueId(id)); }

ncclResult_t InitRank(const InitCall& call) {
  ImplicitGroup group;
  return group.Finish(AddInit(call, *group.get()));
}

ncclResult_t InitAll(ncclComm_t* comms, int count, const int* devices) {
  ImplicitGroup group;
  return group.Finish(AddInitAll(comms, count, devices, *group.get()));
}

ncclResult_t Finalize(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const absl::StatusOr<CommRef> comm = FindCommunicator("ncclCommFinalize", handle);
  if (!comm.ok()) return Report(comm.status());
  if (absl::Status status = (*comm)->BeginFinalize(); !status.ok()) return Report(status);
  if (!(*comm)->blocking()) return ncclInProgress;
  return Report((*comm)->AwaitFinalized());
}

ncclResult_t Destroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  ImplicitGroup group;
  absl::StatusOr<CommRef> comm = RetireHandle("ncclCommDestroy", handle);
  if (comm.ok()) {
    RecordFailure(**comm);
    group->AddDestroy(*std::move(comm));
  }
  return group.Finish(comm.status());
}

ncclResult_t Abort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  absl::StatusOr<CommRef> comm = RetireHandle("ncclCommAbort", handle);
  if (!comm.ok()) return Report(comm.status());
  RecordFailure(**comm);
  (*comm)->Abort();
  return ncclSuccess;
}

namespace {

// Runs one function of a communicator that stays alive.
ncclResult_t Step(const char* function, ncclComm_t handle, absl::Status (Communicator::*step)()) {
  const absl::StatusOr<CommRef> comm = FindCommunicator(function, handle);
  return Report(comm.ok() ? ((**comm).*step)() : comm.status());
}

ncclResult_t RejectFlags(const char* function, int flags, const char* allowed) {
  return Report(ArgumentError(function, "flags is ", flags, "; expected ", allowed));
}

}  // namespace

ncclResult_t Revoke(ncclComm_t handle, int flags) {
  if (handle == nullptr) return ncclSuccess;
  if (flags != 0) return RejectFlags("ncclCommRevoke", flags, "NCCL_REVOKE_DEFAULT");
  if (const CommRef comm = Process::Get().handles().Find(handle)) RecordFailure(*comm);
  return Step("ncclCommRevoke", handle, &Communicator::Revoke);
}

ncclResult_t Suspend(ncclComm_t handle, int flags) {
  constexpr int kSuspendMemory = 1;
  if (flags != kSuspendMemory) return RejectFlags("ncclCommSuspend", flags, "NCCL_SUSPEND_MEM");
  return Step("ncclCommSuspend", handle, &Communicator::Suspend);
}

ncclResult_t Resume(ncclComm_t handle) {
  return Step("ncclCommResume", handle, &Communicator::Resume);
}

}  // namespace mccs::shim
