#include "controller/policy/placement.h"

#include <algorithm>
#include <limits>

namespace mccs {
namespace {

// Limit of rounds in which flows move. Each round but the last lowers the excess.
constexpr int kMaxRounds = 16;
// Minimal gain of a move, as a part of the flow's demand. Demands are simple fractions of a NIC,
// and so are their differences; 0.23 is not such a fraction, so rounding errors do not matter.
constexpr double kWorthMoving = 0.23;
// Differences below this part of a demand are rounding errors.
constexpr double kRounding = 1e-6;

struct Cost {
  double excess = 0;
  double load = 0;
};

class FlowPlacer {
 public:
  FlowPlacer(std::span<const double> capacity, std::span<PlacedFlow> flows)
      : capacity_(capacity), flows_(flows), load_(capacity.size()) {}

  size_t Run() {
    FindDemands();
    std::vector<std::optional<PathIndex>> before;
    for (PlacedFlow& flow : flows_) {
      before.push_back(flow.path);
      if (!flow.fixed && flow.path && !MayTake(flow, *flow.path)) flow.path.reset();
    }
    for (size_t f = 0; f < flows_.size(); ++f) Load(f, 1);
    for (const bool last : {false, true}) {
      for (size_t f = 0; f < flows_.size(); ++f) {
        PlacedFlow& flow = flows_[f];
        if (flow.fixed || flow.path || flow.last != last) continue;
        flow.path = Best(f).first;
        Load(f, 1);
      }
    }
    FindWays();
    for (int round = 0; round < kMaxRounds && MoveSome(); ++round) {
    }
    size_t moved = 0;
    for (size_t f = 0; f < flows_.size(); ++f) {
      if (before[f] && before[f] != flows_[f].path) ++moved;
    }
    return moved;
  }

 private:
  static bool MayTake(const PlacedFlow& flow, PathIndex path) {
    if (path.value() >= flow.paths.size()) return false;
    return flow.allowed == nullptr ||
           std::binary_search(flow.allowed->begin(), flow.allowed->end(), path);
  }

  void FindDemands() {
    std::vector<int> users(capacity_.size());
    for (const PlacedFlow& flow : flows_) {
      ++users[flow.paths.out().value()];
      ++users[flow.paths.into().value()];
    }
    std::vector<double> part(capacity_.size());
    for (size_t arc = 0; arc < part.size(); ++arc) {
      if (users[arc] > 0) part[arc] = capacity_[arc] / users[arc];
    }
    demand_.reserve(flows_.size());
    for (const PlacedFlow& flow : flows_) {
      demand_.push_back(std::min(part[flow.paths.out().value()], part[flow.paths.into().value()]));
    }
  }

  void Load(size_t f, double sign) {
    const PlacedFlow& flow = flows_[f];
    if (flow.path) {
      for (const ArcId arc : flow.paths.Fabric(*flow.path)) load_[arc.value()] += sign * demand_[f];
    } else if (flow.fixed) {
      const double part = sign * demand_[f] / flow.paths.size();
      for (int32_t p = 0; p < flow.paths.size(); ++p) {
        for (const ArcId arc : flow.paths.Fabric(PathIndex(p))) load_[arc.value()] += part;
      }
    }
  }

  // Of a flow on its current path.
  double ExcessNow(const PlacedFlow& flow) const {
    double excess = 0;
    for (const ArcId arc : flow.paths.Fabric(*flow.path))
      excess += std::max(0.0, load_[arc.value()] - capacity_[arc.value()]);
    return excess;
  }

  // Of the flow on this path; the flow must not be counted there.
  Cost CostOf(size_t f, PathIndex path) const {
    Cost cost;
    for (const ArcId arc : flows_[f].paths.Fabric(path)) {
      const double load = load_[arc.value()] + demand_[f];
      cost.excess += std::max(0.0, load - capacity_[arc.value()]);
      cost.load += load;
    }
    return cost;
  }

  std::pair<PathIndex, Cost> Best(size_t f) const {
    const PlacedFlow& flow = flows_[f];
    const double rounding = kRounding * demand_[f];
    std::optional<PathIndex> best;
    Cost least;
    const auto look = [&](PathIndex path) {
      const Cost cost = CostOf(f, path);
      const double excess = cost.excess - least.excess, load = cost.load - least.load;
      const bool better = excess < -rounding || (excess <= rounding && load < -rounding);
      if (best && !better) return;
      best = path;
      least = cost;
    };
    if (flow.allowed != nullptr) {
      for (const PathIndex path : *flow.allowed) look(path);
    } else {
      for (int32_t p = 0; p < flow.paths.size(); ++p) look(PathIndex(p));
    }
    return {*best, least};
  }

  // Increase of the sum of squares if the flow, which has no path now, takes `path`.
  double SquaresWith(size_t f, PathIndex path) const {
    double sum = 0;
    for (const ArcId arc : flows_[f].paths.Fabric(path)) {
      const double excess = load_[arc.value()] - capacity_[arc.value()];
      const double before = std::max(0.0, excess), after = std::max(0.0, excess + demand_[f]);
      sum += (after - before) * (after + before);
    }
    return sum;
  }

  // Lower bounds for all flows between the same switches, to skip flows that cannot gain. On any
  // path without a link in common with its own, a flow has at least the path's surplus (the sum of
  // load − capacity) plus its own demand on each link.
  struct PathBounds {
    const FabricPaths* fabric = nullptr;  // null: no flow that might move
    double least_surplus = 0;
  };

  static bool MayMove(const PlacedFlow& flow) { return !flow.fixed && flow.paths.size() > 1; }

  void FindWays() {
    for (const PlacedFlow& flow : flows_) {
      if (!MayMove(flow)) continue;
      const FabricPaths* fabric = flow.paths.fabric();
      const auto number = static_cast<size_t>(fabric->number);
      if (number >= bounds_.size()) bounds_.resize(number + 1);
      bounds_[number].fabric = fabric;
    }
  }

  void FindSurplus() {
    for (PathBounds& ways : bounds_) {
      if (ways.fabric == nullptr) continue;
      ways.least_surplus = std::numeric_limits<double>::infinity();
      auto arc = ways.fabric->arcs.begin();
      for (int32_t p = 0; p < ways.fabric->count; ++p) {
        double surplus = 0;
        for (int32_t i = 0; i < ways.fabric->hops; ++i, ++arc)
          surplus += load_[arc->value()] - capacity_[arc->value()];
        ways.least_surplus = std::min(ways.least_surplus, surplus);
      }
    }
  }

  bool MoveSome() {
    bool moved = false;
    FindSurplus();
    for (size_t f = 0; f < flows_.size(); ++f) {
      PlacedFlow& flow = flows_[f];
      if (!MayMove(flow)) continue;
      const double worth = kWorthMoving * demand_[f];
      const double now = ExcessNow(flow);
      if (now <= worth) continue;
      const PathBounds& ways = bounds_[flow.paths.fabric()->number];
      const double elsewhere = ways.least_surplus + demand_[f] * ways.fabric->hops;
      if (ways.fabric->disjoint && elsewhere >= now - worth) continue;
      Load(f, -1);
      const auto [path, cost] = Best(f);
      if (cost.excess < now - worth &&
          SquaresWith(f, path) < SquaresWith(f, *flow.path) - worth * worth) {
        flow.path = path;
        moved = true;
      }
      Load(f, 1);
    }
    return moved;
  }

  const std::span<const double> capacity_;
  const std::span<PlacedFlow> flows_;
  std::vector<double> demand_;      // by flow
  std::vector<PathBounds> bounds_;  // by number
  std::vector<double> load_;        // by arc; NICs' arcs are on all paths of a flow and are ignored
};

}  // namespace

size_t PlaceFlows(std::span<const double> capacity_bps, std::span<PlacedFlow> flows) {
  return FlowPlacer(capacity_bps, flows).Run();
}

}  // namespace mccs
