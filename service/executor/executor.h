// Runs the operations of one communicator on this host, one after the other, each over all its
// channels.
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
  // For plans of `channels` channels over lanes of `shape`. `device` and `lanes` outlive the
  // executor.
  Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels);

  // Has the lanes made that the plan needs and that are not there yet: errors as LaneDirectory's;
  // after one there is nothing to run, and no other operation may be started.
  // REQUIRES: !running(). Plans outlive the executor; the rest of `binding`, the run.
  absl::Status Start(const OperationBinding& binding);

  // Moves the operation on. True when anything moved. After an error the operation never ends;
  // destroy the executor once it is quiescent().
  absl::StatusOr<bool> Poll();

  bool running() const { return running_; }
  bool quiescent() const;
  // The tag of the slice that did not fit, after kInvalidArgument from Poll().
  std::optional<SliceTag> foreign_tag() const;

 private:
  std::vector<std::unique_ptr<ChannelRunner>> runners_;
  bool running_ = false;
};

// Takes what the device has finished and tells those who wait for it. True when there was anything,
// or the device did work in this call.
// Once per turn of the engine, for all communicators.
bool DispatchFinished(Device& device);

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_EXECUTOR_H_
