// The lanes of one channel as its runner uses them: each with the steps that are its turn, so that
// a lane without credit, or whose slices are late, holds up no other.
//
// OWNER: the ChannelRunner. THREAD: the owning engine. Never blocks; allocates only for a program
// that it has not met.
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
  std::byte* staging = nullptr;  // of a lane for which a program composes slices
  SliceNumber next = 0;          // of the next send that is admitted
  StepQueue waiting;             // admitted, not posted
  StepQueue unacknowledged;      // posted; the lane may still read their sources
  uint32_t steps = 0;            // of the program in use
};

struct ReceiveQueue {
  RecvLane* lane = nullptr;
  SliceNumber next = 0;  // of the next receive that is admitted
  StepQueue waiting;     // admitted, not done
  uint32_t steps = 0;
};

class ChannelLanes {
 public:
  ChannelLanes(LaneDirectory& directory, ChannelId channel)
      : directory_(directory), channel_(channel) {}
  ChannelLanes(const ChannelLanes&) = delete;
  ChannelLanes& operator=(const ChannelLanes&) = delete;

  // Takes the lanes that `program` names into use, instead of those before, with room for `rows`
  // rounds, and tells its steps theirs. Errors as LaneDirectory's.
  // REQUIRES: no step is in a queue.
  absl::Status Use(const Program& program, uint32_t rows, ProgramFacts& facts);
  // The next slices are those that the lanes will number next.
  void BeginRun();

  // In use.
  std::span<SendQueue* const> sends() const { return sends_; }
  std::span<ReceiveQueue* const> receives() const { return receives_; }

 private:
  SendQueue& SendTo(HostIndex peer);
  absl::StatusOr<ReceiveQueue*> ReceiveFrom(HostIndex peer);

  LaneDirectory& directory_;
  const ChannelId channel_;
  std::deque<SendQueue> all_sends_;  // of all programs so far, where they stay
  std::deque<ReceiveQueue> all_receives_;
  std::vector<SendQueue*> send_by_peer_;  // by HostIndex; null: not met
  std::vector<ReceiveQueue*> receive_by_peer_;
  std::vector<SendQueue*> sends_;
  std::vector<ReceiveQueue*> receives_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_CHANNEL_LANES_H_
