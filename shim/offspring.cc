#include "shim/offspring.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/comm_config.h"
#include "shim/error_text.h"
#include "shim/group.h"
#include "shim/join_message.h"
#include "shim/process.h"

namespace mccs::shim {
namespace {

// What all the calls have in common.
struct ParentCall {
  const char* function;
  ncclComm_t comm;
  ncclComm_t* newcomm;
  const ncclConfig_t* config;
};

template <typename... Parts>
absl::Status Bad(const char* function, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(function, ": ", parts...));
}

absl::StatusOr<CommRef> FindParent(const ParentCall& call) {
  if (call.newcomm == nullptr) return Bad(call.function, "newcomm is NULL");
  *call.newcomm = nullptr;
  CommRef parent = Process::Get().handles().Find(call.comm);
  if (!parent) {
    return Bad(call.function, "comm is ",
               call.comm == nullptr ? "NULL" : "no communicator that is alive");
  }
  return parent;
}

absl::StatusOr<CommConfig> ConfigOf(const ParentCall& call, const Communicator& parent) {
  if (call.config == nullptr) return parent.config();
  return ReadCommConfig(call.config);
}

// Whether the call waits is the parent's way, as for every call on a communicator.
Group::Birth BirthOf(const ParentCall& call, CommRef parent, JoinOptions options) {
  options.device = parent->binding();
  const bool blocking = parent->blocking();
  auto child = std::make_unique<Communicator>(parent->session(), std::move(options));
  return {.comm = std::move(child),
          .where = call.newcomm,
          .blocking = blocking,
          .shown_at_once = false,
          .parent = std::move(parent)};
}

absl::Status AddSplit(const SplitCall& split, Group& group) {
  const ParentCall call{"ncclCommSplit", split.comm, split.newcomm, split.config};
  MCCS_ASSIGN_OR_RETURN(CommRef parent, FindParent(call));
  if (split.color < 0 && split.color != NCCL_SPLIT_NOCOLOR) {
    return Bad(call.function, "color is ", split.color,
               "; it must be 0 or more, or NCCL_SPLIT_NOCOLOR");
  }
  MCCS_RETURN_IF_ERROR(parent->CheckUsable());
  JoinOptions options;
  MCCS_ASSIGN_OR_RETURN(options.config, ConfigOf(call, *parent));
  wire::CommSplit message{};
  message.comm_handle = parent->handle();
  message.color = split.color;
  message.key = split.key;
  MCCS_ASSIGN_OR_RETURN(message.options, MakeCommOptions(options.config));
  options.message = message;
  Group::Birth birth = BirthOf(call, std::move(parent), std::move(options));
  birth.outside = split.color == NCCL_SPLIT_NOCOLOR;
  group.AddBirth(std::move(birth));
  return absl::OkStatus();
}

}  // namespace

ncclResult_t Split(const SplitCall& call) {
  GroupOfCall group;
  return group.Finish(AddSplit(call, *group.get()));
}

}  // namespace mccs::shim
