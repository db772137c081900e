// Flows on paths, so that no link is asked for more than it carries, or as little more as can be
// had (source: fair flow assignment, FFA, in "MCCS", SIGCOMM 2024, policy 2).
//
// A flow's demand is what it would get if its two NICs were the only limit, each shared evenly by
// the flows that use it. A path's cost is its excess demand: the sum over its links of
// max(0, load + demand − capacity). Equal excess: the path with the smaller total load, then the
// one that counts first.
//
// The published policy starts from an empty network whenever it runs. Here flows that have a path
// stay where they are, others are placed one by one in the order in which they stand, and then
// those on links that are asked for too much move, as long as that helps: so that one job that
// comes or goes moves few flows of others. A flow moves only to a path with less excess (by
// about a quarter of its demand), and only if the sum over all links of (excess)² falls, so that
// moving comes to an end and what it ended with is left alone by the next run.
//
// Pure. Work: flows × paths, times the few rounds of moving.
#ifndef MCCS_CONTROLLER_POLICY_PLACEMENT_H_
#define MCCS_CONTROLLER_POLICY_PLACEMENT_H_

#include <optional>
#include <span>
#include <vector>

#include "topology/ecmp_paths.h"

namespace mccs {

struct PlacedFlow {
  PathSet paths;  // not empty; of the same EcmpPaths as those of all others
  // Those that it may take, ascending, at least one; null: all. Outlives the call.
  const std::vector<PathIndex>* allowed = nullptr;
  std::optional<PathIndex> path;  // where it is; nothing: not known, or not placed yet
  // It is where the fabric has it. Where that is not known it counts evenly on all its paths.
  bool fixed = false;
  // Whether it is placed after the others that have no path, so that it can go round them.
  bool last = false;
};

// Gives each flow that is not fixed a path. `capacity_bps` is by arc. Returns how many had one
// before and have another now.
size_t PlaceFlows(std::span<const double> capacity_bps, std::span<PlacedFlow> flows);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PLACEMENT_H_
