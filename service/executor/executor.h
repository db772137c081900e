// Runs the operations of one communicator on this host, one at a time, each over all its channels.
//
// OWNER: the communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_EXECUTOR_EXECUTOR_H_
#define MCCS_SERVICE_EXECUTOR_EXECUTOR_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/executor/channel_runner.h"
#include "service/executor/operation_binding.h"

namespace mccs {

class Executor {
 public:
  // For plans of `channels` channels over lanes of `shape`. LIFETIME: `device` and `lanes` outlive
  // the executor.
  Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels);

  // Creates missing lanes of the plan. After an error (as for LaneDirectory) nothing runs, and no
  // other operation may be started.
  // REQUIRES: !running(). Plans outlive the executor; the rest of `binding` outlives the run.
  absl::Status Start(const OperationBinding& binding);

  // Advances the operation. Returns true if anything moved. After an error the operation never
  // completes; destroy the executor when it is quiescent().
  absl::StatusOr<bool> Poll();

  bool running() const { return running_; }
  bool quiescent() const;
  // After kInvalidArgument from Poll(): the tag of the mismatched slice.
  std::optional<SliceTag> mismatched_tag() const;

 private:
  std::vector<std::unique_ptr<ChannelRunner>> runners_;
  bool running_ = false;
};

// Takes finished MemOps from the device and notifies their owners. Returns true if there were any,
// or if the device did work during this call. Called once per turn of the engine, for all
// communicators.
bool DispatchFinished(Device& device);

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_EXECUTOR_H_
