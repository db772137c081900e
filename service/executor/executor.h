// Runs the operations of one communicator on this host, one at a time. The device runs the plan;
// feeds move slices between the device and the lanes.
//
//   OperationLoop ── Start ──► DevicePlan ◄── counters ──► feeds ◄──► lanes
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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "algorithms/program_lanes.h"
#include "service/device/device.h"
#include "service/executor/channel_lanes.h"
#include "service/executor/operation_stamps.h"

namespace mccs {

// Plans that stay loaded, as long as they take no more memory than this together. A ring of 1,000
// hosts with one rank each takes about 4 MiB per channel.
inline constexpr size_t kMaxLoadedPlans = 8;
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
  // For plans of `channels` channels over lanes of `shape`. LIFETIME: `device` and `lanes` outlive
  // the executor.
  Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Creates missing lanes of the plan. After an error (as for LaneDirectory and Device::Load)
  // nothing runs.
  // REQUIRES: !running().
  absl::Status Start(const Operation& operation);

  // Advances the operation. Returns true if anything moved. After an error the operation never
  // completes; destroy the executor when it is quiescent(). Errors: those of ReceiveFeed and of
  // DevicePlan.
  absl::StatusOr<bool> Poll();

  bool running() const { return running_; }
  // The device uses no memory of an operation. Lanes may.
  bool quiescent() const;
  // After kInvalidArgument from Poll(): the tag of the mismatched slice.
  std::optional<SliceTag> mismatched_tag() const;

 private:
  struct Loaded {
    std::shared_ptr<const Plan> plan;
    std::vector<ProgramLanes> lanes;  // by channel
    std::vector<ProgramFeeds> feeds;
    std::unique_ptr<DevicePlan> device_plan;
    std::vector<LaneRun> runs;  // of the current operation
  };

  absl::StatusOr<Loaded*> Load(const Operation& operation);
  void MakeRoom(uint64_t bytes);
  void Begin(Loaded& loaded);

  Device& device_;
  const LaneShape shape_;
  std::deque<ChannelLanes> channels_;  // addresses are stable
  std::list<Loaded> loaded_;           // most recently used first
  Operation operation_;                // the current one, of loaded_.front()
  bool running_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_EXECUTOR_H_
