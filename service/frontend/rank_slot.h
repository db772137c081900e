// One rank of a tenant process, as its session tracks it.
//
// clang-format off
//   kForming ──init answered──► kJoined
//      │ CommDestroy               │ CommDestroy
//      ├──────────► kFinishing ◄───┤
//      │                │ CommAbort, or the process ends
//      └──────────► kAborting ◄────┘ CommAbort, or the process ends; kForming: or the init failed
//   kFinishing, kAborting ──released by the communicator──► kReleased
// clang-format on
//
// A rank that leaves while it forms has not answered its init: AnswerInit is independent of this.
//
// OWNER: the Session. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_RANK_SLOT_H_
#define MCCS_SERVICE_FRONTEND_RANK_SLOT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/communicator/communicator.h"
#include "service/communicator/membership/communicator_environment.h"
#include "service/communicator/membership/derived_communicator.h"
#include "service/frontend/rank_endpoint.h"
#include "service/host_budget.h"

namespace mccs {

class RankSlot {
 public:
  enum class State : uint8_t { kForming, kJoined, kFinishing, kAborting, kReleased };

  struct Origin {
    uint64_t serial = 0;  // unique among all ranks of the session, from 1 on
    JoinRequest join;     // without roster
    uint64_t init_request = 0;
  };
  // `regions`: for the memory that the endpoint shares with the process.
  RankSlot(Origin origin, std::unique_ptr<RankEndpoint> endpoint, BudgetShare regions)
      : origin_(std::move(origin)), regions_(std::move(regions)), endpoint_(std::move(endpoint)) {}

  const Origin& origin() const { return origin_; }
  RankEndpoint& endpoint() { return *endpoint_; }
  const RankEndpoint& endpoint() const { return *endpoint_; }
  // Null when kReleased.
  Communicator* communicator() const { return endpoint_->communicator; }
  bool leaving() const { return state_ >= State::kFinishing; }
  bool released() const { return state_ == State::kReleased; }

  // Returns true the first time: the caller answers the init. `ok`: a rank that forms has joined.
  bool AnswerInit(bool ok);
  bool init_answered() const { return init_answered_; }
  // `request`: the CommAbort or CommDestroy, to be answered at the release. Returns false if the
  // rank already leaves in this way or at once, or was released.
  bool BeginLeave(Communicator::Leaving how, std::optional<uint64_t> request);
  // Whether BeginLeave would return true.
  bool MayLeave(Communicator::Leaving how) const { return state_ < StateOf(how); }
  // Returns the requests to answer. REQUIRES: leaving(), not released().
  std::vector<uint64_t> Release();

  // ---- Derived communicators. REQUIRES: communicator() has members ------------------------------

  // The excluded ranks of a CommShrink arrive in several messages. kInvalidArgument: more than the
  // communicator has; forgets them all.
  absl::Status AddExcluded(const wire::CommShrink& part);
  // Returns the excluded ranks in ascending order and forgets them.
  std::vector<int32_t> TakeExcluded();
  // The rank's place after the next shrink by `excluded`. kResourceExhausted: too many different
  // lists; other errors: see DeriveShrunk.
  absl::StatusOr<DerivedRank> Shrink(std::vector<int32_t> excluded);

  // The id of the communicator after the next CommGrow.
  wire::UniqueId GrownId() const;
  // Returns the same for the new ranks, once per CommGrow. kFailedPrecondition: given before.
  absl::StatusOr<wire::UniqueId> GiveGrownId();
  void CountGrow();

 private:
  static State StateOf(Communicator::Leaving how) {
    return how == Communicator::Leaving::kAtOnce ? State::kAborting : State::kFinishing;
  }

  const Origin origin_;
  const BudgetShare regions_;
  const std::unique_ptr<RankEndpoint> endpoint_;
  State state_ = State::kForming;
  bool init_answered_ = false;
  std::vector<uint64_t> end_requests_;
  std::vector<int32_t> excluded_;  // of a CommShrink whose last message has not arrived
  std::map<std::vector<int32_t>, int64_t> shrinks_;  // completed, by excluded ranks
  int64_t grown_ = 0;                                // number of completed CommGrows
  bool grow_id_given_ = false;                       // for the next CommGrow
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_RANK_SLOT_H_
