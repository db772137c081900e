#include "tests/unit/algorithms/check/event_graph.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace mccs::check {
namespace {

constexpr size_t kWordBits = 64;

// Edges grouped by one of their ends.
class Adjacency {
 public:
  explicit Adjacency(size_t events) : begin_(events + 1, 0) {}

  void Count(EventId at) { ++begin_[at + 1]; }
  void Seal() {
    for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    items_.resize(begin_.back());
    fill_ = begin_;
  }
  void Put(EventId at, EventId item) { items_[fill_[at]++] = item; }
  std::span<const EventId> of(EventId at) const {
    return std::span(items_).subspan(begin_[at], begin_[at + 1] - begin_[at]);
  }

 private:
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> fill_;
  std::vector<EventId> items_;
};

}  // namespace

bool EventGraph::Sort() {
  Adjacency followers(events_);
  std::vector<uint32_t> open(events_, 0);  // number of unsatisfied waits
  for (const auto* edges : {&waits_, &strict_waits_}) {
    for (const auto& [later, earlier] : *edges) followers.Count(earlier);
  }
  followers.Seal();
  for (const auto* edges : {&waits_, &strict_waits_}) {
    for (const auto& [later, earlier] : *edges) {
      followers.Put(earlier, later);
      ++open[later];
    }
  }
  order_.clear();
  order_.reserve(events_);
  for (EventId e = 0; e < events_; ++e) {
    if (open[e] == 0) order_.push_back(e);
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    for (EventId later : followers.of(order_[i])) {
      if (--open[later] == 0) order_.push_back(later);
    }
  }
  place_.assign(events_, 0);
  std::vector<bool> reached(events_, false);
  for (uint32_t i = 0; i < order_.size(); ++i) {
    place_[order_[i]] = i;
    reached[order_[i]] = true;
  }
  if (order_.size() < events_) {
    FindCycle(reached);
    return false;
  }
  FindAncestors();
  return true;
}

// Each event that was not reached waits for another one that was not reached, so following these
// waits leads to a cycle.
void EventGraph::FindCycle(const std::vector<bool>& reached) {
  std::vector<EventId> blocker(events_, events_);
  for (const auto* edges : {&waits_, &strict_waits_}) {
    for (const auto& [later, earlier] : *edges) {
      if (!reached[later] && !reached[earlier] && blocker[later] == events_)
        blocker[later] = earlier;
    }
  }
  EventId at = 0;
  while (reached[at]) ++at;
  for (size_t i = 0; i < events_; ++i) at = blocker[at];  // Now certainly on the cycle.
  cycle_.clear();
  const EventId first = at;
  do {
    cycle_.push_back(at);
    at = blocker[at];
  } while (at != first);
}

void EventGraph::FindAncestors() {
  Adjacency earlier_of(events_);
  for (const auto& [later, earlier] : waits_) earlier_of.Count(later);
  earlier_of.Seal();
  for (const auto& [later, earlier] : waits_) earlier_of.Put(later, earlier);
  words_ = (events_ + kWordBits - 1) / kWordBits;
  ancestors_.assign(events_ * words_, 0);
  for (EventId event : order_) {
    uint64_t* mine = &ancestors_[event * words_];
    mine[event / kWordBits] |= uint64_t{1} << (event % kWordBits);
    for (EventId earlier : earlier_of.of(event)) {
      const uint64_t* theirs = &ancestors_[earlier * words_];
      for (size_t w = 0; w < words_; ++w) mine[w] |= theirs[w];
    }
  }
}

bool EventGraph::Precedes(EventId earlier, EventId later) const {
  MCCS_CHECK(!ancestors_.empty());
  return (ancestors_[later * words_ + earlier / kWordBits] >> (earlier % kWordBits)) & 1;
}

}  // namespace mccs::check
