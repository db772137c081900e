#include "tests/unit/algorithms/check/channel_events.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "algorithms/issue_order.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "tests/unit/algorithms/check/shape.h"

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

absl::StatusOr<ChannelEvents> ChannelEvents::Build(const ProofInput& proof, ChannelId channel) {
  ChannelEvents events(proof, channel);
  MCCS_RETURN_IF_ERROR(events.AddInstances());
  MCCS_RETURN_IF_ERROR(events.MatchLanes());
  events.AddStepWaits();
  for (const Lane& lane : events.lanes_) events.AddLaneWaits(lane);
  for (const Host& host : events.hosts_) events.AddStrictWaits(host);
  return events;
}

ChannelEvents::ChannelEvents(const ProofInput& proof, ChannelId channel)
    : proof_(proof), channel_(channel), rounds_(proof.geometry.rounds(channel)) {}

InstanceId ChannelEvents::Find(int host, uint64_t round, uint16_t position) const {
  const Host& h = hosts_[host];
  return static_cast<InstanceId>(h.first + round * h.program->steps.size() + position);
}

std::string ChannelEvents::Where(const Instance& instance) const {
  return check::Where(instance.host, channel_, instance.round, instance.position,
                      instance.step->kind);
}

absl::Status ChannelEvents::AddInstances() {
  for (size_t h = 0; h < proof_.plans.size(); ++h) {
    const Program& program = proof_.plans[h].programs[channel_.value()];
    if (graph_.events() + 2 * rounds_ * program.steps.size() > kMaxCheckedEvents) {
      return absl::InvalidArgumentError(
          absl::StrCat("channel ", channel_.value(), ": ", rounds_,
                       " rounds are too many to check; lower the count"));
    }
    hosts_.push_back(
        {.program = &program, .first = static_cast<InstanceId>(instances_.size()), .order = {}});
    instances_.resize(instances_.size() + rounds_ * program.steps.size());
    IssueOrder order(program, rounds_, proof_.options.skew);
    for (; !order.done(); order.Advance()) {
      const StepInstance next = order.current();
      const int host = static_cast<int>(h);
      const InstanceId id = Find(host, next.round, next.step);
      instances_[id].round = next.round;
      instances_[id].block_slice = proof_.geometry.SliceOf(next.round);
      instances_[id].position = next.step;
      AddInstance(host, id, program.steps[next.step]);
      instances_[id].step = StepInRound(program, next);
    }
  }
  if (graph_.events() > kMaxCheckedEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("channel ", channel_.value(), ": ", graph_.events(),
                     " events are too many to check; lower the count"));
  }
  return absl::OkStatus();
}

// Pieces of slots are numbered from 0 in each round.
const Step* ChannelEvents::StepInRound(const Program& program, const StepInstance& instance) {
  const Step& whole = program.steps[instance.step];
  const int32_t parts = proof_.plans[0].parts;
  if (parts == 1) return &whole;
  const IndexRange range = proof_.geometry.Parts(instance.round);
  const auto entries = [&](const auto& list) {
    const IndexRange taken = PartEntries(range, list.size(), parts);
    return std::vector(list.begin() + static_cast<std::ptrdiff_t>(taken.begin),
                       list.begin() + static_cast<std::ptrdiff_t>(taken.end));
  };
  const auto renumber = [&](Place& place) {
    if (place.space != Space::kReceived && place.space != Space::kStaged) return;
    const size_t pieces = program.steps[place.index].pieces.size();
    place.piece = static_cast<uint16_t>(place.piece - PartEntries(range, pieces, parts).begin);
  };
  Step& step = steps_in_rounds_.emplace_back(Step{.kind = whole.kind,
                                                  .combines = entries(whole.combines),
                                                  .pieces = entries(whole.pieces),
                                                  .peer = whole.peer,
                                                  .after = whole.after,
                                                  .stage = whole.stage});
  for (Place& place : step.pieces) renumber(place);
  for (Combine& combine : step.combines) {
    for (Place& place : combine.sources) renumber(place);
    for (Place& place : combine.destinations) renumber(place);
  }
  return &step;
}

void ChannelEvents::AddInstance(int host, InstanceId id, const Step& step) {
  Instance& instance = instances_[id];
  instance.host = host;
  instance.step = &step;
  instance.begin = graph_.AddEvent();
  instance.end = graph_.AddEvent();
  hosts_[host].order.push_back(id);
  if (step.kind == StepKind::kSend) {
    instance.staged = step.pieces[0].space == Space::kStaged;
    instance.delivered = graph_.AddEvent();
    instance.lane = LaneOf(host, step.peer.value());
    std::vector<InstanceId>& sends = lanes_[instance.lane].sends;
    instance.slice = sends.size();
    sends.push_back(id);
  } else if (step.kind == StepKind::kReceive) {
    instance.landing = graph_.AddEvent();
    instance.released = graph_.AddEvent();
    instance.lane = LaneOf(step.peer.value(), host);
    std::vector<InstanceId>& receives = lanes_[instance.lane].receives;
    instance.slice = receives.size();
    receives.push_back(id);
  }
}

size_t ChannelEvents::LaneOf(int from, int to) {
  const auto [it, added] = lane_by_ends_.try_emplace({from, to}, lanes_.size());
  if (added) lanes_.push_back({.from = from, .to = to, .sends = {}, .receives = {}});
  return it->second;
}

absl::Status ChannelEvents::MatchLanes() {
  for (const Lane& lane : lanes_) {
    const std::vector<InstanceId>& sends = lane.sends;
    const std::vector<InstanceId>& receives = lane.receives;
    for (size_t n = 0; n < std::min(sends.size(), receives.size()); ++n) {
      MCCS_RETURN_IF_ERROR(MatchSlice(sends[n], receives[n]));
    }
    if (sends.size() == receives.size()) continue;
    const bool more_sent = sends.size() > receives.size();
    const Instance& lonely =
        instances_[more_sent ? sends[receives.size()] : receives[sends.size()]];
    return absl::FailedPreconditionError(
        absl::StrCat(Where(lonely), ": slice ", lonely.slice, " from host ", lane.from, " to host ",
                     lane.to, " has no ", more_sent ? "receive" : "send", "; ", sends.size(),
                     " are sent, ", receives.size(), " received"));
  }
  return absl::OkStatus();
}

absl::Status ChannelEvents::MatchSlice(InstanceId send_id, InstanceId receive_id) {
  Instance& send = instances_[send_id];
  Instance& receive = instances_[receive_id];
  send.peer = receive_id;
  receive.peer = send_id;
  const auto& sent = send.step->pieces;
  const auto& expected = receive.step->pieces;
  bool equal = sent.size() == expected.size();
  for (size_t i = 0; equal && i < sent.size(); ++i) {
    equal = proof_.geometry.Slice(channel_, send.round, sent[i].block).count ==
            proof_.geometry.Slice(channel_, receive.round, expected[i].block).count;
  }
  if (equal) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Where(send), ": slice ", send.slice,
                                                    " matches ", Where(receive),
                                                    ", which expects pieces of other lengths"));
}

void ChannelEvents::AddStepWaits() {
  for (const Instance& instance : instances_) {
    graph_.Wait(instance.end, instance.begin);
    for (uint16_t before : instance.step->after) {
      graph_.Wait(instance.begin, instances_[Find(instance.host, instance.round, before)].done());
    }
    if (instance.step->kind != StepKind::kCombine) continue;
    for (const Combine& combine : instance.step->combines) {
      for (const Place& place : combine.sources) {
        if (place.space != Space::kReceived) continue;
        graph_.Wait(instances_[Find(instance.host, instance.round, place.index)].released,
                    instance.end);
      }
      for (const Place& place : combine.destinations) {
        if (place.space != Space::kStaged) continue;
        const Instance& send = instances_[Find(instance.host, instance.round, place.index)];
        const uint32_t slots = proof_.options.staging();
        if (send.slice < slots) continue;
        const InstanceId before = lanes_[send.lane].sends[send.slice - slots];
        graph_.Wait(instance.begin, instances_[before].end);
      }
    }
  }
}

void ChannelEvents::AddLaneWaits(const Lane& lane) {
  const uint32_t slots = proof_.options.slots;
  for (size_t n = 0; n < lane.sends.size(); ++n) {
    const Instance& send = instances_[lane.sends[n]];
    const Instance& receive = instances_[send.peer];
    graph_.Wait(send.delivered, send.begin);
    graph_.Wait(send.end, send.delivered);
    graph_.Wait(receive.landing, send.begin);
    graph_.Wait(receive.end, send.delivered);
    graph_.StrictWait(send.delivered, receive.begin);
    if (n > 0) {
      const Instance& before = instances_[lane.sends[n - 1]];
      graph_.Wait(send.begin, before.begin);
      graph_.Wait(send.delivered, before.delivered);
      graph_.Wait(send.end, before.end);
    }
    if (n >= slots) {
      graph_.Wait(send.begin, instances_[instances_[lane.sends[n - slots]].peer].released);
    }
  }
  for (size_t n = 0; n < lane.receives.size(); ++n) {
    const Instance& receive = instances_[lane.receives[n]];
    graph_.Wait(receive.landing, receive.begin);
    graph_.Wait(receive.end, receive.landing);
    graph_.Wait(receive.released, receive.end);
    if (n > 0) graph_.Wait(receive.released, instances_[lane.receives[n - 1]].released);
    if (n >= slots) graph_.StrictWait(receive.begin, instances_[lane.receives[n - slots]].released);
  }
}

void ChannelEvents::AddStrictWaits(const Host& host) {
  const uint64_t group_rounds = uint64_t{proof_.options.skew} + 1;
  const size_t group_size = group_rounds * host.program->steps.size();
  for (size_t i = 1; i < host.order.size(); ++i) {
    const Instance& instance = instances_[host.order[i]];
    const Instance& before = instances_[host.order[i - 1]];
    const bool awaits_end = proof_.options.in_order && before.step->kind != StepKind::kSend;
    graph_.StrictWait(instance.begin, awaits_end ? before.end : before.begin);
    if (i % group_size != 0) continue;
    for (size_t before = i - group_size; before < i; ++before) {
      graph_.StrictWait(instance.begin, instances_[host.order[before]].end);
    }
  }
}

absl::Status ChannelEvents::CheckProgress() {
  if (graph_.Sort()) return absl::OkStatus();
  std::vector<InstanceId> owner(graph_.events(), 0);
  for (InstanceId id = 0; id < instances_.size(); ++id) {
    const Instance& instance = instances_[id];
    owner[instance.begin] = owner[instance.end] = id;
    if (instance.step->kind == StepKind::kSend) owner[instance.delivered] = id;
    if (instance.step->kind == StepKind::kReceive)
      owner[instance.landing] = owner[instance.released] = id;
  }
  constexpr size_t kNamed = 6;
  std::string text;
  size_t named = 0;
  InstanceId last = static_cast<InstanceId>(instances_.size());
  for (EventId event : graph_.cycle()) {
    if (owner[event] == last) continue;
    last = owner[event];
    if (++named > kNamed) break;
    absl::StrAppend(&text, named == 1 ? "" : " waits for ", Where(instances_[last]));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("deadlock with ", proof_.options.slots, " slots, ", proof_.options.staging(),
                   " staging slots and skew ", proof_.options.skew, ": ", text,
                   named > kNamed ? " waits for …" : "", " waits for the first"));
}

}  // namespace mccs::check
