// The sequence of operations of one communicator on this host. An operation starts when every local
// rank has posted it, its inputs are ready, and the previous one is complete. A small one need not
// wait for the previous one, if neither accesses memory that the other writes: the collectives of a
// group, and of independent streams, wait for the network together. A captured operation starts
// when every local rank has reached its replay and decided_order.h allows it. Operations complete
// in the order of their starts.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_OPERATION_LOOP_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_OPERATION_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "algorithms/geometry.h"
#include "service/communicator/lanes/lane_set.h"
#include "service/communicator/lanes/operation_signature.h"
#include "service/communicator/links/rank_port.h"
#include "service/communicator/schedule/decided_order.h"
#include "service/communicator/schedule/operation_trace.h"
#include "service/communicator/schedule/strategy_change.h"
#include "service/communicator/strategy/plan_cache.h"
#include "service/counters.h"
#include "service/executor/executor.h"
#include "service/tenant_ledger.h"

namespace mccs {

// Why the loop is not running an operation; decides how the engine may wait.
enum class LoopState : uint8_t {
  kIdle,          // no local rank has posted anything
  kWaitingRanks,  // some have; the others wake the loop when they post
  kWaitingReady,  // all have; a stream must still write its ready word, without a doorbell
  kWaitingQuota,  // all is ready; the tenant's quota delays it; its release sends no wake-up
  kWaitingPlan,   // all is ready; its plan is being built, in this and the next turns
  kWaitingNics,   // all is ready; NICs register its buffers, and lanes are woken by the end of that
  kRunning,
};

// The condition it waits for sends no wake-up and must be polled.
inline bool NeedsPolling(LoopState state) {
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
    TenantAccount* account = nullptr;              // of the ranks' tenant; null: not accounted
    std::shared_ptr<TenantResources> budget = {};  // likewise; null: not limited
    std::span<const LocalIndex> runners = {};      // of KernelRanks
  };
  // `ranks`: by LocalIndex. LIFETIME: ranks and parts outlive the loop.
  OperationLoop(const Parts& parts, Layout layout, HostIndex self, const Strategy& strategy,
                std::span<const LocalRank> ranks);

  // Switches to `strategy` from the next operation on. With unchanged lanes, only the choice of
  // algorithms changes.
  // REQUIRES: no operation runs, and quiescent().
  // LIFETIME: `lanes`, until the next call or the end of the loop.
  void SwitchTo(const Strategy& strategy, LaneSet& lanes);

  // The running operations will not complete, because the communicator has failed: quiescent()
  // becomes true soon.
  void Stop();

  // Advances operations, at most a few small ones per call, so that communicators share the engine:
  // it starts at most kOperationsPerTurn, and none after the engine itself has read and written
  // kBytesPerTurn.
  static constexpr int kOperationsPerTurn = 8;
  static constexpr uint64_t kBytesPerTurn = 128 << 10;
  // Looks at captured collectives of local ranks, at most this many together per call of Poll, or
  // one key of all ranks. The next calls continue with larger keys.
  static constexpr size_t kCapturedPerTurn = 1024;
  // Operations overlap while their buffers, over all local ranks, have at most this many bytes
  // together: larger ones use all bandwidth alone.
  static constexpr uint64_t kMaxOverlappingBytes = 1 << 20;
  // Returns true if anything moved. An error ends the communicator: mismatched collectives
  // (kFailedPrecondition), an invalid record (kInvalidArgument).
  absl::StatusOr<bool> Poll();

  // Of a call that is not posted. Nothing: later turns build its plan.
  absl::StatusOr<std::optional<double>> EstimateUs(const EstimatedCall& call) {
    return plans_->EstimateUs(call);
  }
  // Builds and loads plans for at most this cost (turn_cost.h) per call of Poll, or more by one
  // part.
  static constexpr int64_t kPlanCostPerTurn = 1 << 20;
  // The cost of the plans so far: built, and loaded on the device.
  int64_t plan_cost() const {
    return former_plan_cost_ + plans_->cost() + executor_->loaded_bytes() * kCostPerLoadedByte;
  }

  // plan_cost(), that of each program in each turn in which its operation ran, and that of each
  // look at a captured collective.
  int64_t cost() const {
    return plan_cost() + former_poll_cost_ + executor_->polled_programs() * kCostPerProgram +
           captured_looks_ * kCostPerCaptured;
  }

  // The progress of the local ranks in the current or next operation.
  struct LocalRankStatus {
    std::string call;  // empty: no rank has called it
    std::vector<Rank> absent;
    std::vector<Rank> late;  // called it, but their stream has not reached it
  };
  LocalRankStatus LocalStatus() const;
  // Changes whenever the oldest operation that runs moves or completes.
  uint64_t progress() const { return completed_ + executor_->progress(); }
  // The hosts for which it waits; see Executor.
  bool FindAwaited(size_t* next, size_t most, std::vector<StalledPeer>* found,
                   uint64_t* moved_bytes) const {
    return executor_->FindAwaited(next, most, found, moved_bytes);
  }

  LoopState state() const { return state_; }
  // See Executor: of this strategy.
  const std::string& staged() const { return executor_->staged(); }
  // Operations completed on this host; the current one has the next number.
  uint64_t completed() const { return completed_; }
  uint64_t bytes() const { return bytes_; }
  // Options of the first local rank, counted when the call starts.
  const CallsWithOptions& with_options() const { return with_options_; }
  // A local rank waits in an incomplete operation, so the departure of a rank matters.
  bool has_pending_calls() const { return state_ != LoopState::kIdle; }
  // Neither the device nor a lane holds memory of a tenant.
  bool quiescent() const { return executor_->quiescent(); }
  bool running() const { return !running_.empty(); }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const { return retry_at_; }
  // Traces the operations that start from now on, until it is called with null. An operation that
  // the local ranks have entered already is left out, because its first times are not known.
  // LIFETIME: `trace`, until the next call or the end of the loop.
  void SetTrace(OperationTrace* trace) {
    trace_ = trace;
    trace_skips_next_ = state_ != LoopState::kIdle && state_ != LoopState::kRunning;
  }
  // Number of the last operation that was started.
  uint64_t started() const { return completed_ + running_.size(); }

 private:
  // Progress of the local ranks to one candidate for the next collective.
  enum class Reached : uint8_t { kByNobody, kBySome, kByAll, kReady };

  // An operation that has started and is not complete.
  struct Running {
    OperationSignature signature;
    uint64_t key = kPosted;
    uint64_t bytes = 0;  // of the buffers of all local ranks
    std::optional<Geometry> geometry;
    std::vector<RankMemory> memory;  // by LocalIndex
    std::vector<KernelCall> kernels;
    OperationStamps stamps;
    bool traced = false;
    std::optional<TenantWork> work;  // if it is accounted
  };

  // Of Executor::loaded_bytes: about 1 ns, also to free them later.
  static constexpr int64_t kCostPerLoadedByte = 10;
  // About 0.1 µs.
  static constexpr int64_t kCostPerProgram = 1 << 10;
  static constexpr int64_t kCostPerCaptured = 1 << 10;

  // The tenant's quota limits its operations.
  bool has_quota() const { return account_ != nullptr && account_->HasOperationQuota(); }
  absl::StatusOr<bool> Advance();
  absl::StatusOr<bool> AfterPoll(absl::StatusOr<bool> moved);
  absl::StatusOr<bool> TryStart();
  // Starts the first captured collective that is ready and allowed, of those that the turn allows
  // to look at.
  absl::StatusOr<bool> TryStartCaptured();
  // Starts the collective if it is ready and allowed.
  absl::StatusOr<bool> TryStart(uint64_t key);
  // Starts the next posted collective beside those that run, if it may overlap them.
  absl::StatusOr<bool> TryOverlap();
  uint64_t BytesInUse() const;  // of the buffers of the operations that run
  // REQUIRES: CheckReached has found the calls.
  bool MayOverlap() const;
  bool HasNextCall(const LocalRank& local) const;
  bool ConflictsWith(const Running& running) const;
  absl::StatusOr<Reached> CheckReached(uint64_t key);
  // The smallest key above `after` of a captured collective that is next on any local rank; 0:
  // none.
  uint64_t NextCaptured(uint64_t after) const;
  // A posted call is that at `position`; 0 is the oldest.
  absl::StatusOr<const PostedOperation*> CallOf(const LocalRank& local, uint64_t key,
                                                size_t position) const;
  // Builds parts of plans, as many as the turn allows.
  void WorkOnPlans();
  // Whether the calls found by CheckReached fit the layout, and their buffers the calls.
  absl::Status CheckCalls() const;
  // The plan of the call that is to start; null: later turns build it.
  absl::StatusOr<std::shared_ptr<const Plan>> FindPlan(const PostedOperation& call);
  // Starts the calls found by CheckReached. False: the plan is not built yet, or cannot overlap
  // those that run.
  absl::StatusOr<bool> Start(uint64_t key);
  Operation Bind(const PostedOperation& call, std::shared_ptr<const Plan> plan, Running& running);
  void CompleteOldest();
  // Checks for a peer's slice of another call on a lane that this operation does not use.
  absl::Status CheckOtherLanes() const;
  absl::Status Mismatch(Rank rank, const OperationSignature& theirs, const std::string& whose,
                        const OperationSignature& other) const;

  Device& device_;
  DecidedOrder& order_;
  StrategyChange& change_;
  WorkTally& tally_;
  const Clock& clock_;
  const std::shared_ptr<TenantResources> budget_;
  TenantAccount* const account_;
  OperationTrace* trace_ = nullptr;  // null: no trace runs
  bool trace_skips_next_ = false;
  LaneSet* lanes_;
  const HostIndex self_;
  Strategy strategy_;
  const std::span<const LocalIndex> runners_;
  std::unique_ptr<PlanCache> plans_;
  std::unique_ptr<Executor> executor_;
  int64_t former_plan_cost_ = 0;  // of the strategies before
  int64_t former_poll_cost_ = 0;
  int64_t plan_cost_end_ = 0;  // of plan_cost() in this turn
  std::span<const LocalRank> ranks_;
  LoopState state_ = LoopState::kIdle;
  uint64_t completed_ = 0;
  uint64_t bytes_ = 0;
  CallsWithOptions with_options_;

  // Oldest first. Their addresses are stable, and they are used again.
  std::vector<std::unique_ptr<Running>> running_;
  std::vector<std::unique_ptr<Running>> unused_;
  uint64_t last_key_ = kPosted;  // of the operation that started last
  uint64_t captured_after_ = 0;  // key at which TryStartCaptured stopped; 0: none
  size_t captured_left_ = 0;     // of kCapturedPerTurn, in this turn
  int64_t captured_looks_ = 0;
  OperationSignature signature_;               // found by CheckReached
  std::vector<const PostedOperation*> calls_;  // likewise, by LocalIndex
  // For an operation delayed by its tenant's quota.
  MonotonicNs retry_at_ = kNever;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_OPERATION_LOOP_H_
