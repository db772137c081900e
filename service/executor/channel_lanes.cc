#include "service/executor/channel_lanes.h"

#include <algorithm>

#include "base/status_macros.h"

namespace mccs {
namespace {

bool AllIn(Space space, const std::vector<Place>& places) {
  return !places.empty() && std::all_of(places.begin(), places.end(),
                                        [&](const Place& p) { return p.space == space; });
}

std::vector<uint16_t> ReceivesReadBy(const Step& step) {
  std::vector<uint16_t> reads;
  for (const Combine& combine : step.combines) {
    for (const Place& place : combine.sources) {
      if (place.space == Space::kReceived) reads.push_back(place.index);
    }
  }
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  return reads;
}

}  // namespace

ProgramFacts DeriveFacts(const Program& program) {
  ProgramFacts facts;
  facts.steps.resize(program.steps.size());
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    StepFacts& own = facts.steps[s];
    own.source_base = facts.sources;
    own.destination_base = facts.destinations;
    own.staged = step.kind == StepKind::kSend && AllIn(Space::kStaged, step.pieces);
    own.in_slot = step.kind == StepKind::kReceive && AllIn(Space::kReceived, step.pieces);
    own.reads = ReceivesReadBy(step);
    for (uint16_t receive : own.reads) ++facts.steps[receive].readers;
    for (const Combine& combine : step.combines) {
      facts.sources += static_cast<uint32_t>(combine.sources.size());
      facts.destinations += static_cast<uint32_t>(combine.destinations.size());
    }
    if (step.kind == StepKind::kReceive && !own.in_slot) {  // one copy per piece if it is early
      facts.sources += static_cast<uint32_t>(step.pieces.size());
      facts.destinations += static_cast<uint32_t>(step.pieces.size());
    }
  }
  return facts;
}

namespace {

// The entry of `peer`, created if needed.
template <typename Queue>
Queue*& EntryOf(std::vector<Queue*>& by_peer, HostIndex peer) {
  const auto index = static_cast<size_t>(peer.value());
  if (by_peer.size() <= index) by_peer.resize(index + 1, nullptr);
  return by_peer[index];
}

}  // namespace

absl::Status ChannelLanes::Use(const Program& program, uint32_t rows, ProgramFacts& facts) {
  for (SendQueue* queue : sends_) queue->steps = 0;
  for (ReceiveQueue* queue : receives_) queue->steps = 0;
  sends_.clear();
  receives_.clear();
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    StepFacts& own = facts.steps[s];
    if (step.kind == StepKind::kSend) {
      own.send = &SendTo(step.peer);
      if (own.send->steps++ == 0) sends_.push_back(own.send);
      if (own.staged && own.send->staging == nullptr) {
        MCCS_ASSIGN_OR_RETURN(const MemRef staging, directory_.StagingTo(channel_, step.peer));
        own.send->staging = staging.data;
      }
    } else if (step.kind == StepKind::kReceive) {
      MCCS_ASSIGN_OR_RETURN(own.receive, ReceiveFrom(step.peer));
      if (own.receive->steps++ == 0) receives_.push_back(own.receive);
    }
  }
  for (SendQueue* queue : sends_) {
    queue->waiting.Reset(rows * queue->steps);
    queue->unacknowledged.Reset(rows * queue->steps);
  }
  for (ReceiveQueue* queue : receives_) queue->waiting.Reset(rows * queue->steps);
  return absl::OkStatus();
}

void ChannelLanes::BeginRun() {
  // A receiving end does not number what it expects: the count continues from the previous run.
  for (SendQueue* queue : sends_) queue->next = queue->lane->next();
}

SendQueue& ChannelLanes::SendTo(HostIndex peer) {
  SendQueue*& queue = EntryOf(send_by_peer_, peer);
  if (queue == nullptr) {
    queue = &all_sends_.emplace_back();
    queue->lane = directory_.SendTo(channel_, peer);
  }
  return *queue;
}

absl::StatusOr<ReceiveQueue*> ChannelLanes::ReceiveFrom(HostIndex peer) {
  ReceiveQueue*& queue = EntryOf(receive_by_peer_, peer);
  if (queue == nullptr) {
    MCCS_ASSIGN_OR_RETURN(RecvLane* const lane, directory_.ReceiveFrom(channel_, peer));
    queue = &all_receives_.emplace_back();
    queue->lane = lane;
  }
  return queue;
}

}  // namespace mccs
