#include "shim/calls/derived_communicators.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/calls/lifecycle.h"
#include "shim/config/comm_config.h"
#include "shim/daemon/error_message.h"
#include "shim/daemon/join_message.h"
#include "shim/daemon/unique_id_env.h"
#include "shim/process/group.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

// Common arguments of all calls.
struct ParentCall {
  const char* function;
  ncclComm_t comm;
  ncclComm_t* newcomm;
  const ncclConfig_t* config;
};

absl::StatusOr<CommRef> FindParent(const ParentCall& call) {
  if (call.newcomm == nullptr) return ArgumentError(call.function, "newcomm is NULL");
  *call.newcomm = nullptr;
  return FindCommunicator(call.function, call.comm);
}

absl::StatusOr<CommConfig> ConfigOf(const ParentCall& call, const Communicator& parent) {
  if (call.config == nullptr) return parent.config();
  return ReadCommConfig(call.config);
}

// The parent decides whether the call blocks, as for every call on a communicator.
Group::PendingInit PendingInitFor(const ParentCall& call, CommRef parent, JoinOptions options) {
  options.device = parent->binding();
  const bool blocking = parent->blocking();
  auto child = std::make_unique<Communicator>(parent->session(), std::move(options));
  return {.comm = std::move(child),
          .where = call.newcomm,
          .blocking = blocking,
          .expose_at_once = false,
          .parent = std::move(parent)};
}

absl::Status AddSplit(const SplitCall& split, Group& group) {
  const ParentCall call{"ncclCommSplit", split.comm, split.newcomm, split.config};
  MCCS_ASSIGN_OR_RETURN(CommRef parent, FindParent(call));
  if (split.color < 0 && split.color != NCCL_SPLIT_NOCOLOR) {
    return ArgumentError(call.function, "color is ", split.color,
                         "; expected 0 or more, or NCCL_SPLIT_NOCOLOR");
  }
  MCCS_RETURN_IF_ERROR(parent->CheckParent(/*failed_too=*/false));
  JoinOptions options;
  MCCS_ASSIGN_OR_RETURN(options.config, ConfigOf(call, *parent));
  wire::CommSplit message{};
  message.comm_handle = parent->handle();
  message.color = split.color;
  message.key = split.key;
  MCCS_ASSIGN_OR_RETURN(message.options, MakeCommOptions(options.config));
  options.message = message;
  Group::PendingInit init = PendingInitFor(call, std::move(parent), std::move(options));
  init.has_no_color = split.color == NCCL_SPLIT_NOCOLOR;
  return group.AddPendingInit(std::move(init));
}

absl::Status AddShrink(const ShrinkCall& shrink, Group& group) {
  const ParentCall call{"ncclCommShrink", shrink.comm, shrink.newcomm, shrink.config};
  MCCS_ASSIGN_OR_RETURN(CommRef parent, FindParent(call));
  if (shrink.excluded == nullptr || shrink.count < 1) {
    return ArgumentError(call.function, "excludeRanksList is ",
                         shrink.excluded == nullptr ? "NULL" : "empty",
                         "; expected at least one rank");
  }
  if (shrink.flags != NCCL_SHRINK_DEFAULT && shrink.flags != NCCL_SHRINK_ABORT) {
    return ArgumentError(call.function, "shrinkFlags is ", shrink.flags,
                         "; expected NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT");
  }
  const bool abort = shrink.flags == NCCL_SHRINK_ABORT;
  MCCS_RETURN_IF_ERROR(parent->CheckParent(/*failed_too=*/abort));
  if (shrink.count >= parent->ranks()) {
    return ArgumentError(call.function, "cannot exclude ", shrink.count, " of ", parent->ranks(),
                         " ranks");
  }
  JoinOptions options;
  MCCS_ASSIGN_OR_RETURN(options.config, ConfigOf(call, *parent));
  wire::CommShrink message{};
  message.comm_handle = parent->handle();
  MCCS_ASSIGN_OR_RETURN(message.options, MakeCommOptions(options.config));
  for (int i = 0; i < shrink.count; ++i) {
    const int rank = shrink.excluded[i];
    if (rank < 0 || rank >= parent->ranks() || rank == parent->rank()) {
      return ArgumentError(call.function, "excludeRanksList contains ", rank,
                           ": expected ranks 0 to ", parent->ranks() - 1,
                           " except the caller's rank ", parent->rank());
    }
    if (message.count == wire::kExcludedPerMessage) {
      message.flags = wire::kShrinkMore;
      options.before.push_back(message);
      message.count = 0;
    }
    message.excluded[message.count++] = rank;
  }
  message.flags = 0;
  if (abort) message.flags = wire::kShrinkAbort;
  options.message = message;
  Group::PendingInit init = PendingInitFor(call, std::move(parent), std::move(options));
  init.ends_parent = abort;
  return group.AddPendingInit(std::move(init));
}

absl::Status FillGrowId(ncclComm_t comm, ncclUniqueId* id) {
  static constexpr char kFunction[] = "ncclCommGetUniqueId";
  if (id == nullptr) return ArgumentError(kFunction, "uniqueId is NULL");
  MCCS_ASSIGN_OR_RETURN(const CommRef parent, FindCommunicator(kFunction, comm));
  MCCS_RETURN_IF_ERROR(parent->CheckParent(/*failed_too=*/false));
  wire::CommUniqueId message{};
  message.comm_handle = parent->handle();
  DaemonClient& daemon = *parent->session()->client;
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, daemon.Send(message));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, daemon.Await(request, kUniqueIdTimeout));
  MCCS_ASSIGN_OR_RETURN(const auto made, reply.As<wire::UniqueIdReply>());
  std::memcpy(id, made.unique_id, sizeof(*id));
  return absl::OkStatus();
}

absl::Status AddGrow(const GrowCall& grow, Group& group) {
  const ParentCall call{"ncclCommGrow", grow.comm, grow.newcomm, grow.config};
  MCCS_ASSIGN_OR_RETURN(CommRef parent, FindParent(call));
  MCCS_RETURN_IF_ERROR(parent->CheckParent(/*failed_too=*/false));
  if (grow.rank != -1) {
    return ArgumentError(call.function, "rank is ", grow.rank,
                         "; expected -1, because a rank of the old communicator keeps its number");
  }
  if (grow.ranks <= parent->ranks()) {
    return ArgumentError(call.function, "nRanks is ", grow.ranks,
                         "; expected more than the communicator's ", parent->ranks(), " ranks");
  }
  JoinOptions options;
  MCCS_ASSIGN_OR_RETURN(options.config, ConfigOf(call, *parent));
  wire::CommGrow message{};
  message.comm_handle = parent->handle();
  message.ranks = grow.ranks;
  if (grow.id != nullptr) {
    MCCS_ASSIGN_OR_RETURN(const wire::UniqueId id, OpenUniqueId(*grow.id));
    std::memcpy(message.unique_id, &id, sizeof(message.unique_id));
  }
  MCCS_ASSIGN_OR_RETURN(message.options, MakeCommOptions(options.config));
  options.message = message;
  return group.AddPendingInit(PendingInitFor(call, std::move(parent), std::move(options)));
}

}  // namespace

ncclResult_t Shrink(const ShrinkCall& call) {
  ImplicitGroup group;
  return group.Finish(AddShrink(call, *group.get()));
}

ncclResult_t MakeGrowId(ncclComm_t comm, ncclUniqueId* id) { return Report(FillGrowId(comm, id)); }

ncclResult_t Grow(const GrowCall& call) {
  if (call.comm == nullptr && call.id != nullptr) {
    return InitRank({"ncclCommGrow", call.newcomm, call.ranks, call.id, call.rank, call.config});
  }
  ImplicitGroup group;
  return group.Finish(AddGrow(call, *group.get()));
}

ncclResult_t Split(const SplitCall& call) {
  ImplicitGroup group;
  return group.Finish(AddSplit(call, *group.get()));
}

}  // namespace mccs::shim
