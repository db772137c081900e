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
#include "base/check.h"
#include "service/executor/operation_binding.h"

namespace mccs {

struct SendQueue;
struct ReceiveQueue;

// Facts that a runner derives once from a program before it runs many rounds of it.
struct StepFacts {
  // Offsets of the step's MemOp arguments within those of a round.
  uint32_t source_base = 0;
  uint32_t destination_base = 0;
  bool staged = false;   // a send from its staging slot
  bool in_slot = false;  // a receive that stays in its slot
  // For a receive in its slot: the number of combines that read it. For a combine: the receives
  // whose slots it reads, each once.
  uint32_t readers = 0;
  std::vector<uint16_t> reads;
  // The lane of a send or receive.
  SendQueue* send = nullptr;
  ReceiveQueue* receive = nullptr;
};

struct ProgramFacts {
  std::vector<StepFacts> steps;
  uint32_t sources = 0;  // of all MemOps of a round
  uint32_t destinations = 0;
};

// Everything except the lanes.
ProgramFacts DeriveFacts(const Program& program);

// A step of a round in flight: row = round modulo the maximum rounds in flight.
struct StepRef {
  uint32_t row = 0;
  uint16_t step = 0;
};

// A bounded FIFO queue of steps in flight; no allocation after Reset.
class StepQueue {
 public:
  // Empties the queue and makes room for `capacity` entries.
  void Reset(uint32_t capacity) {
    if (entries_.size() < capacity) entries_.resize(capacity);
    head_ = tail_ = 0;
  }
  bool empty() const { return head_ == tail_; }
  uint32_t size() const { return static_cast<uint32_t>(tail_ - head_); }
  // REQUIRES: index < size().
  StepRef at(uint32_t index) const { return entries_[(head_ + index) % entries_.size()]; }
  StepRef front() const { return at(0); }
  void push(StepRef ref) {
    MCCS_CHECK(size() < entries_.size());
    entries_[tail_++ % entries_.size()] = ref;
  }
  void pop() { ++head_; }

 private:
  std::vector<StepRef> entries_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

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
