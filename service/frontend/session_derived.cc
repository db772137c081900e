// The part of a Session that creates derived communicators.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/membership/derived_communicator.h"
#include "service/frontend/session.h"

namespace mccs {

absl::StatusOr<RankSlot*> Session::UsableSlot(uint32_t handle) {
  auto slot = ranks_.find(handle);
  if (slot != ranks_.end() && !slot->second.leaving()) return &slot->second;
  return absl::InvalidArgumentError(absl::StrCat(
      "communicator handle ", handle,
      " is not in use: the communicator was destroyed or never created; create a new one"));
}

Session::Outcome Session::HandleSplit(const wire::CommSplit& request, RankSlot& parent) {
  const uint64_t number = request.header.request;
  if (request.color < 0 && request.color != wire::kNoColor) {
    return absl::InvalidArgumentError(absl::StrCat("invalid color ", request.color,
                                                   " of ncclCommSplit: expected 0 or more, or "
                                                   "NCCL_SPLIT_NOCOLOR"));
  }
  JoinRequest join = parent.origin().join;
  SetOptions(request.options, &join);
  if (!AddPendingRequest(request.comm_handle, number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("duplicate request number ", number,
                     ": it belongs to a pending ncclCommSplit; use a new number"));
  }
  const absl::Status begun = parent.communicator()->Split({.port = &parent.endpoint(),
                                                           .rank = parent.endpoint().rank(),
                                                           .request = number,
                                                           .choice = {request.color, request.key},
                                                           .join = std::move(join)});
  if (!begun.ok()) RemovePendingRequest(request.comm_handle, number);
  // All ranks of this host join: at most one split per turn and tenant.
  if (parent.communicator()->has_split_results()) extra_cost_ += TenantBudget::kPerTurn;
  return Later(begun);
}

absl::Status Session::JoinSplit(uint32_t parent, uint64_t request, const JoinRequest& join) {
  RemovePendingRequest(parent, request);
  if (state_ != State::kOpen) return absl::UnavailableError("its process has ended");
  absl::Status status = Admit(join, request);
  if (!status.ok()) Answer<wire::CommInitReply>(request, status);
  return status;
}

void Session::OnNotMember(uint32_t parent, uint64_t request, const absl::Status& why) {
  RemovePendingRequest(parent, request);
  wire::CommInitReply reply{};
  reply.comm_handle = wire::kNoCommHandle;
  if (state_ == State::kOpen) Answer(request, why, reply);
}

bool Session::AddPendingRequest(uint32_t parent, uint64_t request) {
  pending_by_number_.emplace(request, parent);
  return pending_requests_.emplace(parent, request).second;
}

void Session::RemovePendingRequest(uint32_t parent, uint64_t request) {
  pending_requests_.erase({parent, request});
  pending_by_number_.erase({request, parent});
}

void Session::RejectPendingRequest(uint32_t parent, uint64_t request, const std::string& why) {
  RankEndpoint& endpoint = ranks_.at(parent).endpoint();
  if (endpoint.communicator != nullptr) {
    endpoint.communicator->AbandonSplit(&endpoint, request, why);
  }
  OnNotMember(parent, request,
              absl::AbortedError(absl::StrCat("request cancelled: the rank that made it ", why)));
}

void Session::RejectPendingRequests(uint32_t parent, const std::string& why) {
  for (;;) {
    const auto pending = pending_requests_.lower_bound({parent, 0});
    if (pending == pending_requests_.end() || pending->first != parent) return;
    RejectPendingRequest(parent, pending->second, why);
  }
}

// ---- Shrink and grow: ranks join one by one, as by a unique id ----------------------------------

namespace {

// OK if the communicator works, or its work was ended on purpose.
absl::Status CheckHealth(const Communicator& communicator) {
  if (communicator.members() == nullptr) {
    return absl::FailedPreconditionError(
        "the communicator is still forming; wait until its init has completed");
  }
  if (communicator.failure().ok() || communicator.revoked()) return absl::OkStatus();
  return absl::Status(
      communicator.failure().code(),
      absl::StrCat("the communicator has failed (NCCL_SHRINK_ABORT can shrink it): ",
                   std::string(communicator.failure().message())));
}

}  // namespace

Session::Outcome Session::HandleShrink(const wire::CommShrink& request, RankSlot& slot) {
  const Communicator& parent = *slot.communicator();
  if (parent.members() == nullptr) return CheckHealth(parent);
  MCCS_RETURN_IF_ERROR(slot.AddExcluded(request));
  if ((request.flags & wire::kShrinkMore) != 0) {
    AnswerDone(request.header.request);
    return std::nullopt;
  }
  std::vector<int32_t> excluded = slot.TakeExcluded();
  const bool abort = (request.flags & wire::kShrinkAbort) != 0;
  if (!abort) MCCS_RETURN_IF_ERROR(CheckHealth(parent));
  MCCS_ASSIGN_OR_RETURN(const DerivedRank place, slot.Shrink(std::move(excluded)));
  if (abort) {
    slot.communicator()->RevokeForShrink(
        &slot.endpoint(),
        absl::StrCat("rank ", slot.endpoint().rank().value(),
                     " ended the communicator's work (ncclCommShrink with NCCL_SHRINK_ABORT)"));
  }
  return Later(JoinDerived(slot, place, request.options, request.header.request));
}

Session::Outcome Session::HandleGrow(const wire::CommGrow& request, RankSlot& slot) {
  const Communicator& parent = *slot.communicator();
  MCCS_RETURN_IF_ERROR(CheckHealth(parent));
  const int ranks = parent.members()->layout.rank_count();
  if (request.ranks <= ranks || request.ranks > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("a communicator of ", ranks,
                                                   " ranks cannot grow to ", request.ranks,
                                                   "; at most ", kMaxRanks, " are supported"));
  }
  const DerivedRank place{
      .id = slot.GrownId(), .ranks = request.ranks, .rank = slot.endpoint().rank()};
  static constexpr uint8_t kNotGiven[wire::kUniqueIdBytes] = {};
  wire::UniqueId given;
  std::memcpy(&given, request.unique_id, sizeof(given));
  if (std::memcmp(&given, kNotGiven, sizeof(kNotGiven)) != 0 && !SameId(given, place.id)) {
    return absl::InvalidArgumentError(
        "the unique id is not the one that ncclCommGetUniqueId returned for this communicator");
  }
  slot.CountGrow();
  return Later(JoinDerived(slot, place, request.options, request.header.request));
}

absl::StatusOr<wire::UniqueIdReply> Session::HandleCommUniqueId(const wire::CommUniqueId&,
                                                                RankSlot& slot) {
  MCCS_RETURN_IF_ERROR(CheckHealth(*slot.communicator()));
  MCCS_ASSIGN_OR_RETURN(const wire::UniqueId id, slot.GiveGrownId());
  return Signed(id);
}

// The daemon of rank 0 opens the rendezvous; the others retry until it is open.
absl::Status Session::JoinDerived(const RankSlot& parent, const DerivedRank& place,
                                  const wire::CommOptions& options, uint64_t request) {
  JoinRequest join = parent.origin().join;
  SetOptions(options, &join);
  join.id = place.id;
  join.ranks = place.ranks;
  join.rank.set_rank(place.rank.value());
  if (place.rank == Rank(0)) {
    MCCS_RETURN_IF_ERROR(env_.rendezvous->Register(place.id, identity().tenant, budget_));
  }
  return Admit(join, request);
}

// ---- Revoke -------------------------------------------------------------------------------------

Session::Outcome Session::HandleRevoke(const wire::CommRevoke& request, RankSlot& slot) {
  RankEndpoint& endpoint = slot.endpoint();
  endpoint.communicator->Revoke(
      &endpoint,
      absl::StrCat("rank ", endpoint.rank().value(), " revoked the communicator (ncclCommRevoke)"));
  return Await({request.header.request, request.comm_handle});
}

}  // namespace mccs
