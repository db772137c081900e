// All steps of all rounds and hosts on one channel, their events, and the waits between them.
//
//   combine   begin ─────────────────────► end         destinations are written in between
//   send      begin (posted) ─► delivered ► end        sources are read until `delivered`
//   receive   begin ─► landing ───────────► end        outputs are written from `landing` on
//                                            └► released   its slot and all before are free
//
// In every run, a → b: b waits for a. R is the receive that matches send S, n a slice of one lane;
// lanes wait for each other only if steps do:
//
//   done of each step in `after` → begin
//   posts, deliveries, acknowledgements: each in the order of the lane
//   S begin → S delivered → S end, R end
//   S begin, R begin → R landing → R end
//   R end, end of all combines that read its slot → R released, in the order of the lane
//   n − slots released → n begin (send)
//   n − staging slots end → begin of the combine that stages n
//
// Added by the strictest executor, which runs one step after the other, in IssueOrder, and posts
// sends without waiting for them: begin of a send, end of other steps → begin of the next; a
// receive begins when slice n − slots is released; a group begins when all rounds of the one before
// are done; R begin → S delivered, because a transport that writes straight into the output waits
// for its place (SendLane::WaitForPlaces).
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_CHANNEL_EVENTS_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_CHANNEL_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "algorithms/geometry.h"
#include "algorithms/issue_order.h"
#include "tests/unit/algorithms/plan_check.h"

namespace mccs::check {

using EventId = uint32_t;

// Events and the waits between them: the graph for the proofs of progress and of order.
class EventGraph {
 public:
  EventId AddEvent() { return events_++; }
  size_t events() const { return events_; }

  // `later` waits for `earlier` in every run.
  void Wait(EventId later, EventId earlier) { waits_.emplace_back(later, earlier); }
  // Only in the strictest run.
  void StrictWait(EventId later, EventId earlier) { strict_waits_.emplace_back(later, earlier); }

  // Sorts the events in an order that is possible in the strictest run. Returns false if there is
  // none; then cycle() has events each of which waits for the next, and the last for the first.
  bool Sort();
  const std::vector<EventId>& order() const { return order_; }
  uint32_t PositionInOrder(EventId event) const { return place_[event]; }
  const std::vector<EventId>& cycle() const { return cycle_; }

  // Whether `earlier` precedes (or is) `later` in every run. REQUIRES: Sort() returned true.
  bool Precedes(EventId earlier, EventId later) const;

 private:
  void FindCycle(const std::vector<bool>& reached);
  void FindAncestors();

  using Edge = std::pair<EventId, EventId>;  // later, earlier
  EventId events_ = 0;
  std::vector<Edge> waits_;
  std::vector<Edge> strict_waits_;
  std::vector<EventId> order_;
  std::vector<uint32_t> place_;
  std::vector<EventId> cycle_;
  std::vector<uint64_t> ancestors_;  // events × words: a bit for each event that precedes
  size_t words_ = 0;
};

// The input of the proof. LIFETIME: everything outlives the proof.
struct ProofInput {
  std::span<const Plan> plans;
  const Layout& layout;
  const Geometry& geometry;
  const CheckOptions& options;
};

using InstanceId = uint32_t;

// One step of one round of one host.
struct Instance {
  int host = 0;
  uint64_t round = 0;
  uint64_t block_slice = 0;  // which slice of its blocks
  uint16_t position = 0;
  const Step* step = nullptr;  // with the pieces or combines of the round only
  bool staged = false;         // a send from its staging slot
  size_t lane = 0;             // sends and receives: index in lanes()
  uint64_t slice = 0;          // sends and receives: number on the lane
  InstanceId peer = 0;         // sends and receives: the matching instance
  EventId begin = 0;
  EventId delivered = 0;  // sends
  EventId landing = 0;    // receives
  EventId end = 0;
  EventId released = 0;  // receives

  // The event after which steps that name it in `after` may start.
  EventId done() const { return staged ? begin : end; }
};

// All slices from one host to another, in the order of their numbers.
struct Lane {
  int from = 0;
  int to = 0;
  std::vector<InstanceId> sends;
  std::vector<InstanceId> receives;
};

class ChannelEvents {
 public:
  // Fails if the two ends of a lane do not match.
  static absl::StatusOr<ChannelEvents> Build(const ProofInput& proof, ChannelId channel);

  // Sorts the events: OK if there is no deadlock; else the error contains a cycle of waits.
  absl::Status CheckProgress();

  const std::vector<Instance>& instances() const { return instances_; }
  InstanceId Find(int host, uint64_t round, uint16_t position) const;
  const EventGraph& graph() const { return graph_; }
  ChannelId channel() const { return channel_; }
  // Slices of a block.
  uint64_t block_slices() const { return proof_.geometry.slices(channel_); }
  const std::vector<Lane>& lanes() const { return lanes_; }
  std::string Where(const Instance& instance) const;

 private:
  struct Host {
    const Program* program = nullptr;
    InstanceId first = 0;
    std::vector<InstanceId> order;  // IssueOrder
  };

  ChannelEvents(const ProofInput& proof, ChannelId channel);
  absl::Status AddInstances();
  const Step* StepInRound(const Program& program, const StepInstance& instance);
  void AddInstance(int host, InstanceId id, const Step& step);
  size_t LaneOf(int from, int to);
  absl::Status MatchLanes();
  absl::Status MatchSlice(InstanceId send, InstanceId receive);
  void AddStepWaits();
  void AddLaneWaits(const Lane& lane);
  void AddStrictWaits(const Host& host);

  ProofInput proof_;
  ChannelId channel_;
  uint64_t rounds_ = 0;
  std::deque<Step> steps_in_rounds_;
  std::vector<Host> hosts_;
  std::vector<Lane> lanes_;
  std::map<std::pair<int, int>, size_t> lane_by_ends_;
  std::vector<Instance> instances_;
  EventGraph graph_;
};

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_CHANNEL_EVENTS_H_
