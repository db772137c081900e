// Feeds move slices between a lane and the counters at which a program on the device meets it
// (service/device/lane_ports.h). A feed belongs to one lane and one loaded plan. Feeds of several
// plans may run at once on a lane, which takes their slices in the order of their operations.
//
// OWNER: the Executor. THREAD: the owning engine. Never blocks, never allocates.
#ifndef MCCS_SERVICE_EXECUTOR_LANE_FEEDS_H_
#define MCCS_SERVICE_EXECUTOR_LANE_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "algorithms/issue_order.h"
#include "algorithms/plan.h"
#include "algorithms/program_lanes.h"
#include "service/device/lane_ports.h"
#include "service/device/slice_memory.h"
#include "service/executor/lane_turns.h"
#include "service/executor/operation_stamps.h"
#include "service/executor/stalled_peer.h"
#include "service/transport/lane.h"

namespace mccs {

// One run of a program. LIFETIME: everything outlives the run.
struct LaneRun {
  const Program* program = nullptr;
  uint64_t rounds = 0;
  uint32_t skew = 1;
  SliceMemory memory;
  const SliceTag* tag = nullptr;      // of every slice; the peer's must be equal
  OperationStamps* stamps = nullptr;  // null: the operation is not traced
};

// An outgoing lane, for all of its feeds.
struct SendSide {
  SendLane& lane;
  LaneTurns turns;
  RegionSpan staging = {};  // staging slots, in which programs compose slices
};

class SendFeed {
 public:
  // LIFETIME: the side outlives the feed.
  SendFeed(SendSide& side, const LaneShape& shape) : side_(side), shape_(shape) {}
  SendFeed(const SendFeed&) = delete;
  SendFeed& operator=(const SendFeed&) = delete;

  SendPort port() { return {.counters = &counters_, .staging = side_.staging}; }

  // `steps` of the program use this lane. REQUIRES: drained(). LIFETIME: `steps` and `run` outlive
  // the run.
  void Begin(const LaneRun& run, const std::vector<uint16_t>& steps);
  // Reports what the lane has done to the program.
  void UpdateCounters();
  // Gives the lane what the program has posted, as far as it has room, and not before the slices of
  // earlier operations. Returns true if any.
  bool Send();
  // The lane has all slices of the run.
  bool drained() const { return order_.done(); }
  // Why the run waits for the lane; nothing: it does not.
  std::optional<StallCause> WaitsFor() const;
  uint64_t moved_bytes() const { return side_.lane.moved_bytes(); }  // by the lane

 private:
  RegionSpan SliceAt(const StepInstance& instance) const;

  SendSide& side_;
  const LaneShape shape_;
  SendCounters counters_;
  const LaneRun* run_ = nullptr;
  IssueOrder order_;  // of the slices not yet given to the lane
  SliceNumber next_ = 0;
};

// An incoming lane, for all of its feeds.
struct ReceiveSide {
  RecvLane& lane;
  LaneTurns turns;
  SliceNumber released = 0;  // slices with smaller numbers are released
};

class ReceiveFeed {
 public:
  ReceiveFeed(ReceiveSide& side, const LaneShape& shape)
      : side_(side), shape_(shape), counters_(shape.slots) {}
  ReceiveFeed(const ReceiveFeed&) = delete;
  ReceiveFeed& operator=(const ReceiveFeed&) = delete;

  ReceivePort port() { return {.counters = &counters_, .slots = side_.lane.slots()}; }

  // As for SendFeed. REQUIRES: the last run is complete.
  void Begin(const LaneRun& run, const std::vector<uint16_t>& steps);
  // Reports landed slices to the program. Errors are permanent: kInvalidArgument if a slice belongs
  // to another call, whose tag is then in mismatched_tag(); kDataLoss if its length differs from
  // the plan's.
  absl::Status UpdateCounters();
  // Releases slots that the program has read, and lets slices land in the outputs that it has
  // freed. Returns true if any.
  bool Receive();
  // All slices of this run and of earlier ones are released.
  bool done() const { return done_; }
  // As for SendFeed: the program has read all slices that have landed, and expects the next one.
  std::optional<StallCause> WaitsFor() const;
  uint64_t moved_bytes() const { return side_.lane.moved_bytes(); }

  const std::optional<SliceTag>& mismatched_tag() const { return mismatched_tag_; }

 private:
  absl::Status Check(const StepInstance& instance, Landing landing);
  bool Expect(const StepInstance& instance);

  ReceiveSide& side_;
  const LaneShape shape_;
  ReceiveCounters counters_;
  const LaneRun* run_ = nullptr;
  IssueOrder landing_;    // of the slices not yet landed
  IssueOrder expecting_;  // of the slices not yet expected
  SliceNumber landed_ = 0;
  SliceNumber expected_ = 0;
  SliceNumber released_ = 0;
  SliceNumber end_ = 0;  // of the run's slices
  bool done_ = true;
  std::optional<SliceTag> mismatched_tag_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_LANE_FEEDS_H_
