// Assigns paths to flows so that demand exceeds capacity on links as little as possible (source:
// fair flow assignment, FFA, in "MCCS", SIGCOMM 2024, policy 2).
//
// A flow's demand is its rate if its two NICs were the only limit, each shared evenly by its flows.
// A path's cost is its excess demand: the sum over its links of max(0, load + demand − capacity).
// For equal cost, the path with the smaller total load wins, then the lower index.
//
// The published policy always starts from an empty network. Here, flows with a path keep it, and
// the others are placed one by one, in the given order. Then flows on overloaded links move while
// that helps. So one job that starts or ends moves few flows of others. A flow moves only to a path
// with less excess (by about a quarter of its demand), and only if the sum over all links of
// (excess)² decreases. Moving therefore terminates, and the next run leaves its result unchanged.
//
// Pure. Work: flows × paths × the few rounds of moving.
#ifndef MCCS_CONTROLLER_POLICY_PLACEMENT_H_
#define MCCS_CONTROLLER_POLICY_PLACEMENT_H_

#include <optional>
#include <span>
#include <vector>

#include "topology/ecmp_paths.h"

namespace mccs {

struct PlacedFlow {
  PathSet paths;  // not empty; from the same EcmpPaths as all others
  // The permitted paths, ascending, at least one; null: all. Outlives the call.
  const std::vector<PathIndex>* allowed = nullptr;
  std::optional<PathIndex> path;  // current path; nothing: not known, or not placed yet
  // It cannot move. If its path is not known, it counts evenly on all its paths.
  bool fixed = false;
  // Placed after the other flows without a path, so that it can avoid them.
  bool last = false;
};

// Gives each flow that is not fixed a path. `capacity_bps` is by arc. Returns the number of flows
// that had another path before.
size_t PlaceFlows(std::span<const double> capacity_bps, std::span<PlacedFlow> flows);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PLACEMENT_H_
