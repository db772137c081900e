// The lanes of one channel that plans have used so far.
//
// OWNER: the Executor. THREAD: the owning engine. Never blocks; allocates only for a new plan.
#ifndef MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_
#define MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/executor/lane_directory.h"
#include "service/executor/lane_feeds.h"

namespace mccs {

// The feeds of one loaded program, in the order of its ProgramLanes.
struct ProgramFeeds {
  std::vector<std::unique_ptr<SendFeed>> sends;
  std::vector<std::unique_ptr<ReceiveFeed>> receives;

  ProgramPorts Ports() const;
};

// A buffer of a local rank that a lane is to read or write, in the form of the plan that is not
// staged.
struct BufferUse {
  LaneEnd* lane = nullptr;
  Space space = Space::kInput;  // or kOutput
  LocalIndex rank;
};

class ChannelLanes {
 public:
  ChannelLanes(LaneDirectory& directory, const LaneShape& shape, ChannelId channel)
      : directory_(directory), shape_(shape), channel_(channel) {}
  ChannelLanes(const ChannelLanes&) = delete;
  ChannelLanes& operator=(const ChannelLanes&) = delete;

  // Makes feeds for a program; opens lanes that are used for the first time. Errors as for
  // LaneDirectory. LIFETIME: this outlives the feeds.
  absl::StatusOr<ProgramFeeds> MakeFeeds(const Program& program, const ProgramLanes& lanes);
  // Appends what the program uses, each once; opens lanes and errors as above.
  absl::Status AddBufferUses(const Program& program, std::vector<BufferUse>* uses);

 private:
  SendSide& SendTo(HostIndex peer);
  absl::StatusOr<ReceiveSide*> ReceiveFrom(HostIndex peer);

  LaneDirectory& directory_;
  const LaneShape shape_;
  const ChannelId channel_;
  std::vector<std::unique_ptr<SendSide>> sends_;  // by HostIndex; null: not used yet
  std::vector<std::unique_ptr<ReceiveSide>> receives_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_
