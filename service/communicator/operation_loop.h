// The sequence of operations of one communicator on this host: an operation starts when every local
// rank has posted it and its inputs are ready, and the one before it is done. Or when the replay of
// a captured one has come to every local rank, and it is its turn (decided_order.h).
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_OPERATION_LOOP_H_
#define MCCS_SERVICE_COMMUNICATOR_OPERATION_LOOP_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "algorithms/geometry.h"
#include "service/communicator/decided_order.h"
#include "service/communicator/estimate.h"
#include "service/communicator/lane_set.h"
#include "service/communicator/operation_signature.h"
#include "service/communicator/plan_cache.h"
#include "service/communicator/rank_port.h"
#include "service/communicator/strategy_change.h"
#include "service/executor/executor.h"
#include "service/tenant_ledger.h"
#include "service/work_tally.h"

namespace mccs {

// Why the loop does nothing right now; decides how the engine may wait.
enum class LoopState : uint8_t {
  kIdle,          // no local rank has posted anything
  kWaitingRanks,  // some have, others will wake us when they do
  kWaitingReady,  // all have; a stream must still write its ready word, and rings no bell
  kWaitingQuota,  // all is there; others of the Tenant must end first, and ring no bell
  kRunning,
};

// What it waits for has to be looked for.
inline bool RingsNoBell(LoopState state) {
  return state == LoopState::kWaitingReady || state == LoopState::kWaitingQuota;
}

class OperationLoop {
 public:
  struct Parts {
    Device* device;
    LaneSet* lanes;  // of the first strategy
    DecidedOrder* order;
    StrategyChange* change;
    WorkTally* tally;
    const Clock* clock;
    TenantAccount* account = nullptr;  // of the ranks' Tenant; null: nobody counts
  };
  // `ranks` by LocalIndex; they and the parts outlive the loop.
  OperationLoop(const Parts& parts, Layout layout, HostIndex self, const Strategy& strategy,
                std::span<const LocalRank> ranks);

  // From the next operation on. The same lanes as before: algorithms alone are chosen otherwise.
  // REQUIRES: none runs, and quiescent(). LIFETIME: `lanes`, until the next call or the loop's end.
  void GoOver(const Strategy& strategy, LaneSet& lanes);

  // Moves operations on: at most a few small ones per call, so that communicators take turns. True
  // when anything moved. An error ends the communicator: calls that do not fit together
  // (kFailedPrecondition), a bad record (kInvalidArgument).
  absl::StatusOr<bool> Poll();

  // Of a call that is not posted.
  absl::StatusOr<double> EstimateUs(const EstimatedCall& call);

  // What the local ranks do about the operation that runs or comes next.
  struct Outlook {
    std::string call;  // empty: none has called it
    std::vector<Rank> absent;
    std::vector<Rank> late;  // called it, but the stream has not come to it
  };
  Outlook Look() const;

  LoopState state() const { return state_; }
  // Operations completed on this host; the running one has the next number.
  uint64_t completed() const { return completed_; }
  uint64_t bytes() const { return bytes_; }
  // As the first local rank gave them, from when the call starts on.
  const CallsWithOptions& with_options() const { return with_options_; }
  // A local rank waits in an operation that is not complete: after it, the departure of a rank
  // matters.
  bool wants_more() const { return state_ != LoopState::kIdle; }
  // No memory of a tenant is in the device's or a lane's hands.
  bool quiescent() const { return executor_->quiescent(); }
  bool running() const { return executor_->running(); }
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const { return held_until_; }
  // The last operation that was started.
  uint64_t started() const { return completed_ + (running() ? 1 : 0); }

 private:
  // How far the local ranks are with one collective that could be next.
  enum class Reached : uint8_t { kByNobody, kBySome, kByAll, kReady };

  absl::StatusOr<bool> Advance();
  absl::StatusOr<bool> TryStart();
  // Looks at the collective, and starts it where it is ready and allowed.
  absl::StatusOr<bool> TryStart(uint64_t key);
  absl::StatusOr<Reached> LookAt(uint64_t key);
  absl::StatusOr<uint64_t> NextCaptured(uint64_t after) const;
  absl::StatusOr<const PostedOperation*> CallOf(const LocalRank& local, uint64_t key) const;
  absl::Status Start(uint64_t key);
  absl::Status Bind(const PostedOperation& call);
  void Complete();
  // A peer's slice of another call, on a lane that this operation does not use.
  absl::Status CheckOtherLanes() const;
  absl::Status Mismatch(Rank rank, const OperationSignature& theirs, const std::string& whose,
                        const OperationSignature& other) const;

  Device& device_;
  DecidedOrder& order_;
  StrategyChange& change_;
  WorkTally& tally_;
  const Clock& clock_;
  TenantAccount* const account_;
  LaneSet* lanes_;
  const HostIndex self_;
  Strategy strategy_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<PlanCache> plans_;
  std::span<const LocalRank> ranks_;
  LoopState state_ = LoopState::kIdle;
  uint64_t completed_ = 0;
  uint64_t bytes_ = 0;
  CallsWithOptions with_options_;

  OperationSignature signature_;               // of the running operation
  uint64_t key_ = kPosted;                     // likewise; between operations that of the last one
  std::vector<const PostedOperation*> calls_;  // that LookAt has found, by LocalIndex
  // Held until the next one is built: the executor's runners know a program again by its address.
  std::shared_ptr<const Plan> plan_;
  OperationBinding binding_;
  std::optional<Geometry> geometry_;
  std::vector<RankMemory> memory_;  // by LocalIndex
  // Of an operation that is held back for its Tenant's quota.
  MonotonicNs held_until_ = std::numeric_limits<MonotonicNs>::max();
  std::optional<TenantWork> work_;  // while one runs, and somebody counts
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_OPERATION_LOOP_H_
