// The part of a Session that creates derived communicators.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/membership/derived_communicator.h"
#include "service/frontend/join_options.h"
#include "service/frontend/session.h"
#include "service/frontend/session_reply.h"

namespace mccs {

absl::StatusOr<Session::RankSlot*> Session::UsableSlot(uint32_t handle) {
  auto slot = ranks_.find(handle);
  const bool usable = slot != ranks_.end() && slot->second.endpoint->communicator != nullptr &&
                      !slot->second.leaving.has_value();
  if (usable) return &slot->second;
  return absl::InvalidArgumentError(absl::StrCat("communicator handle ", handle, " is not in use"));
}

absl::Status Session::HandleSplit(const wire::CommSplit& request) {
  const uint64_t number = request.header.request;
  auto split = [&]() -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(RankSlot * parent, UsableSlot(request.comm_handle));
    if (request.color < 0 && request.color != wire::kNoColor) {
      return absl::InvalidArgumentError(absl::StrCat("invalid color ", request.color,
                                                     " of ncclCommSplit: it must be 0 or more, or "
                                                     "NCCL_SPLIT_NOCOLOR"));
    }
    JoinRequest join = parent->join;
    SetOptions(request.options, &join);
    Communicator* communicator = parent->endpoint->communicator;
    pending_requests_.push_back({number, request.comm_handle});
    absl::Status status = communicator->Split({.port = parent->endpoint.get(),
                                               .rank = parent->endpoint->rank(),
                                               .request = number,
                                               .choice = {request.color, request.key},
                                               .join = std::move(join)});
    if (!status.ok()) pending_requests_.pop_back();
    return status;
  }();
  return split.ok() ? split : Send(Reply<wire::CommInitReply>(number, split));
}

absl::Status Session::JoinSplit(uint64_t request, const JoinRequest& join) {
  std::erase_if(pending_requests_,
                [&](const PendingRequest& seat) { return seat.request == request; });
  if (state_ != State::kOpen) return absl::UnavailableError("its process has ended");
  absl::Status status = Admit(join, request);
  if (!status.ok()) CheckSent(Send(Reply<wire::CommInitReply>(request, status)));
  return status;
}

void Session::OnNotMember(uint64_t request, const absl::Status& why) {
  std::erase_if(pending_requests_,
                [&](const PendingRequest& seat) { return seat.request == request; });
  auto reply = Reply<wire::CommInitReply>(request, why);
  reply.comm_handle = wire::kNoCommHandle;
  if (state_ == State::kOpen) CheckSent(Send(reply));
}

void Session::RejectPendingRequests(uint32_t parent, uint64_t request, const std::string& why) {
  RankEndpoint& endpoint = *ranks_.at(parent).endpoint;
  for (const PendingRequest& seat : std::vector<PendingRequest>(pending_requests_)) {
    if (seat.parent != parent || (request != 0 && seat.request != request)) continue;
    if (endpoint.communicator != nullptr) {
      endpoint.communicator->AbandonSplit(&endpoint, seat.request, why);
    }
    OnNotMember(seat.request, absl::AbortedError(absl::StrCat("the rank that asked for it ", why)));
  }
}

// ---- Shrink and grow: ranks join one by one, as by a unique id ----------------------------------

namespace {

// OK if the communicator works, or its work was ended on purpose.
absl::Status CheckHealth(const Communicator& communicator) {
  if (communicator.members() == nullptr) {
    return absl::FailedPreconditionError("the communicator is still forming");
  }
  if (communicator.failure().ok() || communicator.revoked()) return absl::OkStatus();
  return absl::Status(
      communicator.failure().code(),
      absl::StrCat("the communicator has failed (NCCL_SHRINK_ABORT can shrink it): ",
                   std::string(communicator.failure().message())));
}

}  // namespace

absl::Status Session::HandleShrink(const wire::CommShrink& request) {
  const uint64_t number = request.header.request;
  auto shrink = [&]() -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(RankSlot * slot, UsableSlot(request.comm_handle));
    const Communicator& parent = *slot->endpoint->communicator;
    if (parent.members() == nullptr) return CheckHealth(parent);
    const auto ranks = static_cast<size_t>(parent.members()->layout.rank_count());
    if (request.count > wire::kExcludedPerMessage ||
        slot->excluded.size() + request.count > ranks) {
      slot->excluded.clear();
      return absl::InvalidArgumentError(
          absl::StrCat("too many excluded ranks: the communicator has ", ranks));
    }
    slot->excluded.insert(slot->excluded.end(), request.excluded, request.excluded + request.count);
    if ((request.flags & wire::kShrinkMore) != 0) return SendDone(number, absl::OkStatus());
    std::vector<int32_t> excluded = std::exchange(slot->excluded, {});
    const bool abort = (request.flags & wire::kShrinkAbort) != 0;
    if (!abort) MCCS_RETURN_IF_ERROR(CheckHealth(parent));
    std::sort(excluded.begin(), excluded.end());
    const auto before = slot->shrinks.find(excluded);
    const int64_t nth = before == slot->shrinks.end() ? 1 : before->second + 1;
    if (nth == 1 && slot->shrinks.size() >= wire::kMaxCommsPerSession) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the communicator was shrunk by ", slot->shrinks.size(),
                       " different lists of ranks, which is the limit"));
    }
    MCCS_ASSIGN_OR_RETURN(const DerivedRank place,
                          DeriveShrunk(*parent.members(), {parent.secret(), parent.id()},
                                       slot->endpoint->rank(), excluded, nth));
    slot->shrinks[std::move(excluded)] = nth;
    if (abort) {
      Communicator* ended = slot->endpoint->communicator;
      ended->RevokeForShrink(
          slot->endpoint.get(),
          absl::StrCat("rank ", slot->endpoint->rank().value(),
                       " ended its work by ncclCommShrink with NCCL_SHRINK_ABORT"));
    }
    return JoinDerived(*slot, place, request.options, number);
  }();
  return shrink.ok() ? shrink : Send(Reply<wire::CommInitReply>(number, shrink));
}

absl::Status Session::HandleGrow(const wire::CommGrow& request) {
  const uint64_t number = request.header.request;
  auto grow = [&]() -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(RankSlot * slot, UsableSlot(request.comm_handle));
    const Communicator& parent = *slot->endpoint->communicator;
    MCCS_RETURN_IF_ERROR(CheckHealth(parent));
    const int ranks = parent.members()->layout.rank_count();
    if (request.ranks <= ranks || request.ranks > kMaxRanks) {
      return absl::InvalidArgumentError(absl::StrCat("a communicator of ", ranks,
                                                     " ranks cannot grow to ", request.ranks,
                                                     "; at most ", kMaxRanks, " are supported"));
    }
    const DerivedRank place{
        .id = DeriveGrownId(*parent.members(), {parent.secret(), parent.id()}, slot->grown + 1),
        .ranks = request.ranks,
        .rank = slot->endpoint->rank()};
    static constexpr uint8_t kNotGiven[wire::kUniqueIdBytes] = {};
    if (std::memcmp(request.unique_id, kNotGiven, sizeof(kNotGiven)) != 0 &&
        std::memcmp(request.unique_id, &place.id, sizeof(place.id)) != 0) {
      return absl::InvalidArgumentError(
          "the unique id differs from that of ncclCommGetUniqueId for this communicator's next "
          "ncclCommGrow");
    }
    ++slot->grown;
    slot->grow_id_given = false;
    return JoinDerived(*slot, place, request.options, number);
  }();
  return grow.ok() ? grow : Send(Reply<wire::CommInitReply>(number, grow));
}

absl::Status Session::HandleCommUniqueId(const wire::CommUniqueId& request) {
  wire::UniqueId id{};
  const absl::Status made = [&]() -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(RankSlot * slot, UsableSlot(request.comm_handle));
    const Communicator& parent = *slot->endpoint->communicator;
    MCCS_RETURN_IF_ERROR(CheckHealth(parent));
    if (std::exchange(slot->grow_id_given, true)) {
      return absl::FailedPreconditionError(
          "ncclCommGrow has not used the last unique id of this communicator yet");
    }
    id = DeriveGrownId(*parent.members(), {parent.secret(), parent.id()}, slot->grown + 1);
    return absl::OkStatus();
  }();
  auto reply = Reply<wire::UniqueIdReply>(request.header.request, made);
  std::memcpy(reply.unique_id, &id, sizeof(id));
  return Send(reply);
}

// The daemon of rank 0 opens the rendezvous; the others retry until it is open.
absl::Status Session::JoinDerived(const RankSlot& parent, const DerivedRank& place,
                                  const wire::CommOptions& options, uint64_t request) {
  JoinRequest join = parent.join;
  SetOptions(options, &join);
  join.id = place.id;
  join.ranks = place.ranks;
  join.rank.set_rank(place.rank.value());
  if (place.rank == Rank(0)) env_.rendezvous->Register(place.id, identity().tenant);
  return Admit(join, request);
}

// ---- Revoke -------------------------------------------------------------------------------------

absl::Status Session::HandleRevoke(const wire::CommRevoke& request) {
  absl::StatusOr<RankSlot*> slot = UsableSlot(request.comm_handle);
  if (!slot.ok()) return SendDone(request.header.request, slot.status());
  RankEndpoint& endpoint = *(*slot)->endpoint;
  endpoint.communicator->Revoke(&endpoint,
                                absl::StrCat("rank ", endpoint.rank().value(),
                                             " ended its work: it was revoked by ncclCommRevoke"));
  revocations_.push_back({request.header.request, request.comm_handle});
  return absl::OkStatus();
}

bool Session::PollRevocations() {
  const size_t before = revocations_.size();
  std::erase_if(revocations_, [&](const PendingRequest& revocation) {
    auto slot = ranks_.find(revocation.parent);
    const Communicator* communicator =
        slot == ranks_.end() ? nullptr : slot->second.endpoint->communicator;
    if (communicator != nullptr && !communicator->quiescent()) return false;
    if (state_ == State::kOpen) CheckSent(SendDone(revocation.request, absl::OkStatus()));
    return true;
  });
  return revocations_.size() != before;
}

}  // namespace mccs
