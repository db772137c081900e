// Events and the waits between them: the graph for the proofs of progress and of order.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_EVENT_GRAPH_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_EVENT_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mccs::check {

using EventId = uint32_t;

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

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_EVENT_GRAPH_H_
