#include "service/frontend/rank_slot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

bool RankSlot::AnswerInit(bool ok) {
  if (std::exchange(init_answered_, true)) return false;
  if (ok && state_ == State::kForming) state_ = State::kJoined;
  return true;
}

bool RankSlot::BeginLeave(Communicator::Leaving how, std::optional<uint64_t> request) {
  if (!MayLeave(how)) return false;
  state_ = StateOf(how);
  if (request.has_value()) end_requests_.push_back(*request);
  return true;
}

std::vector<uint64_t> RankSlot::Release() {
  MCCS_CHECK(leaving());
  state_ = State::kReleased;
  return std::exchange(end_requests_, {});
}

absl::Status RankSlot::AddExcluded(const wire::CommShrink& part) {
  const auto ranks = static_cast<size_t>(communicator()->members()->layout.rank_count());
  if (part.count > wire::kExcludedPerMessage || excluded_.size() + part.count > ranks) {
    excluded_.clear();
    return absl::InvalidArgumentError(
        absl::StrCat("too many excluded ranks: the communicator has ", ranks));
  }
  excluded_.insert(excluded_.end(), part.excluded, part.excluded + part.count);
  return absl::OkStatus();
}

std::vector<int32_t> RankSlot::TakeExcluded() {
  std::sort(excluded_.begin(), excluded_.end());
  return std::exchange(excluded_, {});
}

absl::StatusOr<DerivedRank> RankSlot::Shrink(std::vector<int32_t> excluded) {
  const auto before = shrinks_.find(excluded);
  const int64_t nth = before == shrinks_.end() ? 1 : before->second + 1;
  if (nth == 1 && shrinks_.size() >= wire::kMaxCommsPerSession) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "too many shrinks: the communicator was shrunk with ", shrinks_.size(),
        " different excludeRanksList, which is the limit; shrink a derived communicator"));
  }
  const Communicator& parent = *communicator();
  MCCS_ASSIGN_OR_RETURN(DerivedRank place,
                        DeriveShrunk(*parent.members(), {parent.key(), parent.id()},
                                     endpoint_->rank(), excluded, nth));
  shrinks_[std::move(excluded)] = nth;
  return place;
}

wire::UniqueId RankSlot::GrownId() const {
  const Communicator& parent = *communicator();
  return DeriveGrownId(*parent.members(), {parent.key(), parent.id()}, grown_ + 1);
}

absl::StatusOr<wire::UniqueId> RankSlot::GiveGrownId() {
  if (std::exchange(grow_id_given_, true)) {
    return absl::FailedPreconditionError(
        "ncclCommGetUniqueId was already called for the next ncclCommGrow of this communicator; "
        "call ncclCommGrow with that id first");
  }
  return GrownId();
}

void RankSlot::CountGrow() {
  ++grown_;
  grow_id_given_ = false;
}

}  // namespace mccs
