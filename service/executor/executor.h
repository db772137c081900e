// Runs the operations of one communicator on this host. The device runs the plan; feeds move slices
// between the device and the lanes.
//
//   OperationLoop ── Start ──► DevicePlan ◄── counters ──► feeds ◄──► lanes
//
// Operations overlap: the next one may start while earlier ones run, so that small ones wait for
// the network together. They complete in the order of their starts. Each runs on a loaded plan of
// its own, and a lane carries their slices one operation after the other (lane_turns.h). So hosts
// need not agree on how many overlap.
//
// If the device cannot map all buffers, lanes may not reach those of an operation. Then its plan
// runs in its staged form (algorithms/staged_plan.h). Slices are the same, so each host decides
// alone, for each operation.
//
// The last plans stay loaded, so that a program that alternates between a few collectives loads
// nothing.
//
// OWNER: the communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_EXECUTOR_EXECUTOR_H_
#define MCCS_SERVICE_EXECUTOR_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "algorithms/program_lanes.h"
#include "service/device/device.h"
#include "service/executor/channel_lanes.h"
#include "service/executor/operation_stamps.h"
#include "service/executor/stalled_peer.h"
#include "service/host_budget.h"

namespace mccs {

// Operations that overlap.
inline constexpr size_t kMaxRunningOperations = 16;
// Only plans of at most this many steps overlap: a larger one waits for its data, not for a few
// slices, and would be loaded several times.
inline constexpr size_t kMaxOverlappingSteps = 1024;
// Plans that stay loaded while they do not run, as long as all take no more memory than this
// together. A ring of 1,000 hosts with one rank each takes about 4 MiB per channel.
inline constexpr size_t kMaxIdlePlans = 8 + kMaxRunningOperations;
inline constexpr uint64_t kMaxLoadedBytes = 256 * kMiB;

// One operation. LIFETIME: what `binding` and `stamps` point to outlives the run.
struct Operation {
  std::shared_ptr<const Plan> plan;
  uint32_t skew = 1;  // of IssueOrder; the same for every operation of a plan
  OperationBinding binding;
  SliceTag tag{};                     // of every slice; the peer's must be equal
  OperationStamps* stamps = nullptr;  // null: the operation is not traced
};

class Executor {
 public:
  // For plans of `channels` channels over lanes of `shape`. `memory`: of kPlanMemory, for loaded
  // plans. LIFETIME: `device` and `lanes` outlive the executor.
  Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels,
           BudgetShare memory = BudgetShare(nullptr, Resource::kPlanMemory));
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Whether an operation of the plan may start now: always if none runs. Those that run use at most
  // half of kMaxLoadedBytes, or one plan more.
  bool MayStart(const Plan& plan) const;
  // Chooses the form in which the operation will run. False: whether lanes reach its buffers is not
  // known yet; a lane's poller is woken when it is. Creates missing lanes of the plan. Errors:
  // those of LaneDirectory.
  absl::StatusOr<bool> Prepare(const Operation& operation);
  // After an error (as for LaneDirectory and Device::Load; kResourceExhausted also if the tenant
  // has no memory for the plan) the operation does not run.
  // REQUIRES: MayStart; Prepare was the last call, with this operation, and returned true. A device
  // with Device::lanes_reach_buffers does not need it.
  absl::Status Start(const Operation& operation);
  // Why the last operation that started runs staged although it uses NICs, and the remedy. Empty:
  // it does not.
  const std::string& staged() const { return staged_; }

  // Advances all operations, or only the one that started last. Returns true if anything moved.
  // Errors: those of ReceiveFeed and of DevicePlan, permanent. That of an operation is returned when
  // all older ones are complete; after it none completes any more, and the executor is destroyed
  // when it is quiescent().
  absl::StatusOr<bool> Poll();
  absl::StatusOr<bool> PollLast();

  // Operations that have started and are not complete. They complete in the order of their starts.
  size_t running() const { return runs_.size(); }
  // Memory of all plans that were loaded so far; the time to load them is proportional to it.
  int64_t loaded_bytes() const { return loaded_bytes_; }
  // Programs of operations advanced so far by Poll(), whether they moved or not.
  int64_t polled_programs() const { return polled_programs_; }
  // Changes whenever anything of the oldest operation moves, or it completes.
  uint64_t progress() const { return progress_; }
  // Looks at lanes of the oldest operation, from number `*next` on and at most `most`: appends the
  // hosts for which it waits there, and adds LaneEnd::moved_bytes of all. Returns false if there
  // are no more.
  bool FindAwaited(size_t* next, size_t most, std::vector<StalledPeer>* found,
                   uint64_t* moved_bytes) const;
  // The operations will not complete: without further Poll(), quiescent() becomes true soon.
  void Stop();
  // The device uses no memory of an operation. Lanes may.
  bool quiescent() const;
  // After kInvalidArgument from Poll() or PollLast(): the tag of the slice that the oldest
  // operation received instead of its own.
  std::optional<SliceTag> mismatched_tag() const;

 private:
  struct Loaded {
    std::shared_ptr<const Plan> plan;         // as the operations name it
    std::shared_ptr<const Plan> device_form;  // as the device runs it: the same, or Staged
    bool staged = false;
    std::vector<ProgramLanes> lanes;  // by channel
    std::vector<ProgramFeeds> feeds;
    std::unique_ptr<DevicePlan> device_plan;
    uint64_t bytes = 0;  // of memory_
    // Of the current operation:
    Operation operation;
    std::vector<LaneRun> runs;
    std::vector<std::shared_ptr<const void>> reached;  // LaneEnd::Reach
  };
  // The form of the operation that starts next.
  struct Prepared {
    std::shared_ptr<const Plan> plan;  // of `uses`
    std::vector<BufferUse> uses;
    bool staged = false;
    std::string why;  // as staged()
    std::vector<std::shared_ptr<const void>> reached;
    // LaneEnd::reach_domain and the region; kept for its memory.
    absl::flat_hash_set<std::pair<const void*, const Region*>> asked;
  };

  // Appends a loaded copy of the plan to runs_: an idle one, or a new one.
  absl::StatusOr<Loaded*> AddRun(const Operation& operation);
  std::shared_ptr<const Plan> StagedFormOf(const std::shared_ptr<const Plan>& plan) const;
  // Whether all lanes reach the operation's buffers; nothing: not known yet.
  std::optional<absl::Status> ReachBuffers(const OperationBinding& binding);
  // Drops idle plans, the least recently used first, until `bytes` more are within all limits.
  absl::Status MakeRoom(uint64_t bytes);
  void DropOldestIdle();
  void Begin(Loaded& loaded);
  absl::StatusOr<bool> Poll(Loaded& loaded);
  // `status`: of the run. OK unless the error is due.
  absl::Status ErrorIfOldest(const Loaded& loaded, const absl::Status& status) const;
  static bool IsComplete(const Loaded& loaded);
  // Returns true if any operation was complete.
  bool RetireComplete();

  Device& device_;
  const LaneShape shape_;
  BudgetShare memory_;                 // of runs_ and idle_
  std::deque<ChannelLanes> channels_;  // addresses are stable
  std::list<Loaded> idle_;             // most recently used first
  std::list<Loaded> runs_;             // oldest first
  Prepared prepared_;
  std::string staged_;
  int64_t loaded_bytes_ = 0;
  int64_t polled_programs_ = 0;
  uint64_t progress_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_EXECUTOR_H_
