// Shares of flows on the links: demands, guarantees that can be held, weighted max-min fair rates,
// and the part of a rate that is payload. Pure.
#ifndef MCCS_TOPOLOGY_MAX_MIN_SHARES_H_
#define MCCS_TOPOLOGY_MAX_MIN_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/ecmp_paths.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr double kUnlimitedBps = std::numeric_limits<double>::infinity();

// The demand, weight and limits of one flow, in bits per second.
struct FlowDemand {
  Path path;
  double weight = 1;  // above zero, finite
  double demand_bps = kUnlimitedBps;
  double guarantee_bps = 0;        // finite; the flow gets at least min(demand, guarantee)
  double cap_bps = kUnlimitedBps;  // upper limit, not below the guarantee
};

// An arc with guarantees above its capacity.
struct BrokenGuarantee {
  ArcId arc;
  double guaranteed_bps = 0;  // sum of the guarantees of the flows over it
  double capacity_bps = 0;
  std::vector<size_t> flows;  // those with a guarantee, ascending
};

// All such arcs, ascending. Guarantees count in full, whatever the flows demand now. `capacity_bps`
// is by arc (Topology::ArcCapacities). An excess below kRateTolerance is ignored.
// REQUIRES: paths within the arcs; guarantees finite, not negative.
std::vector<BrokenGuarantee> FindBrokenGuarantees(std::span<const double> capacity_bps,
                                                  std::span<const FlowDemand> flows);

// Tolerance, relative to the capacity, for a sum of rates above it: rounding errors of fractions.
inline constexpr double kRateTolerance = 1e-9;

// Weighted max-min fair rates of flows on links.
//
// A flow's level is its rate divided by its weight. Rates are max-min fair if no flow's level can
// rise without lowering the level of a flow whose level is not higher. Each rate stays between the
// flow's guarantee and the lower one of its demand and cap. There is exactly one solution. (A flow
// with a guarantee above its fair level gets exactly its guarantee.)
//
// Computed by progressive filling (source: Bertsekas and Gallager, Data Networks, 2nd edition 1992,
// section 6.5.2; weights and lower bounds as in Radunović and Le Boudec, "A unified framework for
// max-min and min-max fairness with applications", 2007). One level rises from zero. Every flow's
// rate rises with it, from its guarantee, until the flow has its demand or an arc on its path is
// full. The level jumps from event to event. The work is proportional to the arcs of all flows
// together, times the logarithm of the number of arcs.

// Why a flow gets no higher rate.
enum class ShareLimit {
  kDemand,  // it has its demand
  kCap,     // it has its cap
  kLink,    // an arc on its path is full
};

struct Share {
  double rate_bps = 0;
  ShareLimit limit = ShareLimit::kDemand;
  ArcId full_arc;  // if limit is kLink
};

// The share of each flow. `capacity_bps` is by arc (Topology::ArcCapacities), zero for an unusable
// one. The rates on an arc exceed its capacity by at most kRateTolerance.
// kInvalidArgument: a flow with values out of range, with an unknown arc
// in its path, or without path, demand and cap. kFailedPrecondition: guarantees above a capacity
// (FindBrokenGuarantees lists all). Messages name flows and arcs by number.
absl::StatusOr<std::vector<Share>> MaxMinShares(std::span<const double> capacity_bps,
                                                std::span<const FlowDemand> flows);

// The part of a link's rate that can carry tenants' data. Pure.

// For a link with both directions full of lanes, as in rings, and packets of up to `mtu_bytes`:
// payload divided by all bytes of one direction, as queues and counters of Ethernet devices count
// them (without preamble and checksum).
// REQUIRES: a Topology's MTU.
double PayloadFraction(int32_t mtu_bytes);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_MAX_MIN_SHARES_H_
