#include "topology/max_min_shares.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "topology/level_heap.h"

namespace mccs {

std::vector<BrokenGuarantee> FindBrokenGuarantees(std::span<const double> capacity_bps,
                                                  std::span<const FlowDemand> flows) {
  std::vector<double> guaranteed(capacity_bps.size());
  for (const FlowDemand& flow : flows) {
    for (const ArcId arc : flow.path) guaranteed[arc.value()] += flow.guarantee_bps;
  }
  std::vector<BrokenGuarantee> broken;
  std::vector<size_t> place(capacity_bps.size());  // in `broken`, from 1; 0: none
  for (size_t arc = 0; arc < capacity_bps.size(); ++arc) {
    if (guaranteed[arc] <= capacity_bps[arc] * (1 + kRateTolerance)) continue;
    broken.push_back({.arc = ArcId(static_cast<int32_t>(arc)),
                      .guaranteed_bps = guaranteed[arc],
                      .capacity_bps = capacity_bps[arc],
                      .flows = {}});
    place[arc] = broken.size();
  }
  if (broken.empty()) return broken;
  for (size_t f = 0; f < flows.size(); ++f) {
    if (flows[f].guarantee_bps == 0) continue;
    for (const ArcId arc : flows[f].path) {
      if (place[arc.value()] != 0) broken[place[arc.value()] - 1].flows.push_back(f);
    }
  }
  return broken;
}

namespace {

// Relative to the arc's largest weight: a smaller remaining weight is inexact and is summed again.
constexpr double kCancelled = 1e-3;

absl::Status Check(std::span<const double> capacity_bps, std::span<const FlowDemand> flows) {
  for (size_t f = 0; f < flows.size(); ++f) {
    const FlowDemand& flow = flows[f];
    const auto wrong = [&](const char* why) {
      return absl::InvalidArgumentError(absl::StrCat("flow ", f, ": ", why));
    };
    if (!(flow.weight > 0) || std::isinf(flow.weight))
      return wrong("weight must be finite and above zero");
    if (!(flow.demand_bps >= 0) || !(flow.cap_bps >= 0) || !(flow.guarantee_bps >= 0))
      return wrong("demand, cap and guarantee must not be negative");
    if (std::isinf(flow.guarantee_bps)) return wrong("guarantee must be finite");
    if (flow.cap_bps < flow.guarantee_bps) return wrong("cap is below the guarantee");
    if (flow.path.empty() && std::isinf(std::min(flow.demand_bps, flow.cap_bps)))
      return wrong("no path, and neither demand nor cap");
    for (const ArcId arc : flow.path) {
      if (arc.value() < 0 || static_cast<size_t>(arc.value()) >= capacity_bps.size())
        return wrong("unknown arc in its path");
    }
  }
  return absl::OkStatus();
}

// The state of one run. Flows and arcs by number.
class ProgressiveFilling {
 public:
  ProgressiveFilling(std::span<const double> capacity_bps, std::span<const FlowDemand> flows);

  absl::Status CheckGuarantees() const;
  std::vector<Share> Run();

 private:
  // clang-format off
  // kWaiting ──level reaches the guarantee──► kRising ──demand reached, or an arc full──► kSettled
  //    └───────an arc of its path is full───────────────────────────────────────────────────▲
  // clang-format on
  enum class State : uint8_t { kWaiting, kRising, kSettled };

  struct Flow {
    double weight, floor, ceiling;  // bounds of its rate
    State state = State::kWaiting;
  };
  // Its load at level t is fixed + weight × t; `fixed` includes settled and waiting flows.
  struct Arc {
    double capacity = 0, fixed = 0, weight = 0;
    double largest_weight = 0;  // since `weight` was last recomputed
    int32_t rising = 0;
    int32_t begin = 0, end = 0;  // range in flows_of_arcs_
  };
  // The level at which a flow starts to rise or reaches its ceiling.
  struct Event {
    double level;
    int32_t flow;
    bool is_ceiling;
  };

  void IndexFlowsByArc();
  void PlanEvents();
  double LevelWhenFull(const Arc& arc) const {
    return std::max(level_, (arc.capacity - arc.fixed) / arc.weight);
  }
  void AwaitFull(int32_t arc) { full_.Lower(arc, LevelWhenFull(arcs_[arc])); }
  void SumAgain(Arc& arc);
  void Begin(int32_t flow);
  void Settle(int32_t flow, double rate, ShareLimit limit, ArcId full_arc = {});
  void Fill(int32_t arc);
  void Handle(const Event& event);

  std::span<const FlowDemand> demands_;
  std::vector<Flow> flows_;
  std::vector<Arc> arcs_;
  std::vector<int32_t> flows_of_arcs_;
  std::vector<Share> shares_;
  double level_ = 0;
  std::vector<Event> events_;
  // Arcs with rising flows, by the level at which they become full, or an earlier one. A settled
  // flow delays that level; it is recomputed when the arc is at the front.
  LevelHeap full_;
};

ProgressiveFilling::ProgressiveFilling(std::span<const double> capacity_bps,
                                       std::span<const FlowDemand> flows)
    : demands_(flows),
      arcs_(capacity_bps.size()),
      shares_(flows.size()),
      full_(capacity_bps.size()) {
  flows_.reserve(flows.size());
  for (const FlowDemand& demand : flows) {
    const double ceiling = std::min(demand.demand_bps, demand.cap_bps);
    flows_.push_back({.weight = demand.weight,
                      .floor = std::min(demand.guarantee_bps, ceiling),
                      .ceiling = ceiling});
  }
  for (size_t a = 0; a < arcs_.size(); ++a) arcs_[a].capacity = capacity_bps[a];
  IndexFlowsByArc();
}

void ProgressiveFilling::IndexFlowsByArc() {
  for (const FlowDemand& demand : demands_) {
    for (const ArcId arc : demand.path) ++arcs_[arc.value()].end;
  }
  int32_t total = 0;
  for (Arc& arc : arcs_) {
    arc.begin = total;
    total += std::exchange(arc.end, total);
  }
  flows_of_arcs_.resize(total);
  for (size_t f = 0; f < demands_.size(); ++f) {
    for (const ArcId id : demands_[f].path) {
      Arc& arc = arcs_[id.value()];
      flows_of_arcs_[arc.end++] = static_cast<int32_t>(f);
      arc.fixed += flows_[f].floor;
    }
  }
}

absl::Status ProgressiveFilling::CheckGuarantees() const {
  for (size_t a = 0; a < arcs_.size(); ++a) {
    if (arcs_[a].fixed <= arcs_[a].capacity * (1 + kRateTolerance)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("arc ", a, " can carry ", FormatBitRate(arcs_[a].capacity),
                     ", but the guarantees on it add up to ", FormatBitRate(arcs_[a].fixed)));
  }
  return absl::OkStatus();
}

void ProgressiveFilling::PlanEvents() {
  for (size_t f = 0; f < flows_.size(); ++f) {
    const Flow& flow = flows_[f];
    const auto id = static_cast<int32_t>(f);
    if (flow.floor > 0 && flow.floor < flow.ceiling)
      events_.push_back({flow.floor / flow.weight, id, false});
    if (std::isfinite(flow.ceiling)) events_.push_back({flow.ceiling / flow.weight, id, true});
  }
  std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return std::tie(a.level, a.flow, a.is_ceiling) < std::tie(b.level, b.flow, b.is_ceiling);
  });
}

std::vector<Share> ProgressiveFilling::Run() {
  PlanEvents();
  for (size_t f = 0; f < flows_.size(); ++f) {
    if (flows_[f].floor == 0 && flows_[f].ceiling > 0) Begin(static_cast<int32_t>(f));
  }
  for (size_t a = 0; a < arcs_.size(); ++a) {
    if (arcs_[a].rising > 0) AwaitFull(static_cast<int32_t>(a));
  }
  auto event = events_.begin();
  while (event != events_.end() || !full_.empty()) {
    if (event != events_.end() && (full_.empty() || event->level <= full_.level())) {
      Handle(*event++);
      continue;
    }
    const int32_t id = full_.number();
    Arc& arc = arcs_[id];
    if (arc.rising == 0) {
      full_.DropLowest();
      continue;
    }
    double true_level = LevelWhenFull(arc);
    if (true_level <= full_.level()) {
      SumAgain(arc);
      true_level = LevelWhenFull(arc);
    }
    if (true_level > full_.level()) {
      full_.RaiseLowest(true_level);
    } else {
      full_.DropLowest();
      level_ = true_level;
      Fill(id);
    }
  }
  return std::move(shares_);
}

void ProgressiveFilling::SumAgain(Arc& arc) {
  arc.fixed = arc.weight = 0;
  for (int32_t i = arc.begin; i < arc.end; ++i) {
    const int32_t f = flows_of_arcs_[i];
    switch (flows_[f].state) {
      case State::kWaiting:
        arc.fixed += flows_[f].floor;
        break;
      case State::kRising:
        arc.weight += flows_[f].weight;
        break;
      case State::kSettled:
        arc.fixed += shares_[f].rate_bps;
        break;
    }
  }
  arc.largest_weight = arc.weight;
}

void ProgressiveFilling::Begin(int32_t id) {
  Flow& flow = flows_[id];
  flow.state = State::kRising;
  for (const ArcId a : demands_[id].path) {
    Arc& arc = arcs_[a.value()];
    arc.fixed -= flow.floor;
    arc.weight += flow.weight;
    arc.largest_weight = std::max(arc.largest_weight, arc.weight);
    ++arc.rising;
  }
}

void ProgressiveFilling::Settle(int32_t id, double rate, ShareLimit limit, ArcId full_arc) {
  Flow& flow = flows_[id];
  const bool rising = std::exchange(flow.state, State::kSettled) == State::kRising;
  shares_[id] = {.rate_bps = rate, .limit = limit, .full_arc = full_arc};
  for (const ArcId a : demands_[id].path) {
    Arc& arc = arcs_[a.value()];
    arc.fixed += rising ? rate : rate - flow.floor;
    if (!rising) continue;
    arc.weight -= flow.weight;
    --arc.rising;
    // The difference of large sums has only rounding errors left.
    if (arc.rising > 0 && arc.weight < arc.largest_weight * kCancelled) SumAgain(arc);
  }
}

// The arc is full at level_: none of its flows rises further.
void ProgressiveFilling::Fill(int32_t id) {
  const Arc& arc = arcs_[id];
  for (int32_t i = arc.begin; i < arc.end; ++i) {
    const int32_t f = flows_of_arcs_[i];
    const Flow& flow = flows_[f];
    // A flow with floor = ceiling that still waits has its ceiling already.
    if (flow.state == State::kSettled || flow.floor == flow.ceiling) continue;
    const double rate = flow.state == State::kRising ? flow.weight * level_ : flow.floor;
    Settle(f, std::clamp(rate, flow.floor, flow.ceiling), ShareLimit::kLink, ArcId(id));
  }
}

void ProgressiveFilling::Handle(const Event& event) {
  const Flow& flow = flows_[event.flow];
  if (flow.state == State::kSettled) return;
  level_ = std::max(level_, event.level);
  const FlowDemand& demand = demands_[event.flow];
  if (event.is_ceiling) {
    Settle(event.flow, flow.ceiling,
           demand.cap_bps < demand.demand_bps ? ShareLimit::kCap : ShareLimit::kDemand);
  } else {
    Begin(event.flow);
    for (const ArcId arc : demand.path) AwaitFull(arc.value());
  }
}

}  // namespace

absl::StatusOr<std::vector<Share>> MaxMinShares(std::span<const double> capacity_bps,
                                                std::span<const FlowDemand> flows) {
  MCCS_RETURN_IF_ERROR(Check(capacity_bps, flows));
  ProgressiveFilling filling(capacity_bps, flows);
  MCCS_RETURN_IF_ERROR(filling.CheckGuarantees());
  return filling.Run();
}

namespace {

constexpr double kEthernetBytes = 14;
constexpr double kIpAndTcpBytes = 20 + 32;  // IPv4; TCP with timestamps

// Headers of slices (48 bytes each) and acknowledgements of the opposite direction: TCP's, one per
// delivery to the receiver (up to 64 KiB; 66 bytes), and lanes', one per slice. Measured on
// saturated links of the lab: 99.05 % of all bytes were payload at MTU 9000, 95.46 % at 1500. A
// receiver that acknowledges every second packet uses 2 % at MTU 1500.
constexpr double kHeadersAndAcknowledgements = 0.002;

}  // namespace

double PayloadFraction(int32_t mtu_bytes) {
  return (mtu_bytes - kIpAndTcpBytes) / (mtu_bytes + kEthernetBytes) *
         (1 - kHeadersAndAcknowledgements);
}

}  // namespace mccs
