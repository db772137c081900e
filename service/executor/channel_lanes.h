// The lanes of one channel for its runner. Each lane has its own queue of steps, so that a lane
// without credit or with late slices does not block the others.
//
// OWNER: the ChannelRunner. THREAD: the owning engine. Never blocks; allocates only for a new
// program.
#ifndef MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_
#define MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "algorithms/plan.h"
#include "service/executor/lane_directory.h"
#include "service/executor/program_facts.h"
#include "service/executor/step_queue.h"

namespace mccs {

struct SendQueue {
  SendLane* lane = nullptr;
  std::byte* staging = nullptr;  // memory in which a program composes slices
  SliceNumber next = 0;          // slice number of the next admitted send
  StepQueue waiting;             // admitted, not posted
  StepQueue unacknowledged;      // posted; the lane may still read their sources
  uint32_t steps = 0;            // of the current program
};

struct ReceiveQueue {
  RecvLane* lane = nullptr;
  SliceNumber next = 0;  // slice number of the next admitted receive
  StepQueue waiting;     // admitted, not done
  uint32_t steps = 0;
};

class ChannelLanes {
 public:
  ChannelLanes(LaneDirectory& directory, ChannelId channel)
      : directory_(directory), channel_(channel) {}
  ChannelLanes(const ChannelLanes&) = delete;
  ChannelLanes& operator=(const ChannelLanes&) = delete;

  // Selects the lanes of `program`, with room for `rows` rounds, and assigns them to its steps.
  // Errors as for LaneDirectory.
  // REQUIRES: all queues are empty.
  absl::Status Use(const Program& program, uint32_t rows, ProgramFacts& facts);
  // Reads the next slice numbers from the lanes.
  void BeginRun();

  // Those of the current program.
  std::span<SendQueue* const> sends() const { return sends_; }
  std::span<ReceiveQueue* const> receives() const { return receives_; }

 private:
  SendQueue& SendTo(HostIndex peer);
  absl::StatusOr<ReceiveQueue*> ReceiveFrom(HostIndex peer);

  LaneDirectory& directory_;
  const ChannelId channel_;
  std::deque<SendQueue> all_sends_;  // of all programs so far; addresses are stable
  std::deque<ReceiveQueue> all_receives_;
  std::vector<SendQueue*> send_by_peer_;  // by HostIndex; null: not used yet
  std::vector<ReceiveQueue*> receive_by_peer_;
  std::vector<SendQueue*> sends_;
  std::vector<ReceiveQueue*> receives_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_
