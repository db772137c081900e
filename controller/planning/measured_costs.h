// A communicator's costs for the choice of algorithms (algorithms/cost.h), from its daemons'
// measurements (proto/agent.proto). Pure.
#ifndef MCCS_CONTROLLER_PLANNING_MEASURED_COSTS_H_
#define MCCS_CONTROLLER_PLANNING_MEASURED_COSTS_H_

#include <optional>
#include <string>

#include "algorithms/cost.h"
#include "controller/state/registry.h"
#include "proto/strategy.pb.h"

namespace mccs {

// Clamped to plausible bounds, whatever daemons report.
struct MeasuredFigures {
  // Time of a short slice from host to host, including the hosts' other work.
  std::optional<double> one_way_us = {};
  std::optional<double> host_bytes_per_us = {};
  // Memory bandwidth of a host, including the effect of other load.
  std::optional<double> local_bytes_per_us = {};

  friend bool operator==(const MeasuredFigures&, const MeasuredFigures&) = default;
};

// Measurements under the applied strategy: median over hosts; per host, over its lanes for
// collectives. Nothing for a figure that fewer than half of the hosts report.
MeasuredFigures MeasuredOf(const CommunicatorRecord& communicator);

// Costs that the strategy uses.
CostParameters CostsOf(const strategy::AlgorithmChoice& choice);
// The daemons' own (configured) costs.
CostParameters OwnCostsOf(const strategy::AlgorithmChoice& choice);

// `applied` updated with measurements. Time per slice, time per operation and the ratio of lane
// rate to host rate stay the daemons' own. A hop takes at least the daemons' own time, since the
// smallest round trip includes no wait for a processor. Nothing: the result would not be valid.
std::optional<CostParameters> Calibrate(const CostParameters& applied, const CostParameters& own,
                                        const MeasuredFigures& measured);

// True: one has twice the other's time of a slice, or half its rate of a host's lanes or memory.
bool FarApart(const CostParameters& one, const CostParameters& other);

// Sets the costs that the strategy uses; keeps the daemons' own ones beside them.
void PutCosts(const CostParameters& costs, strategy::Strategy* strategy);

// "hop 10 us, host 16 Gbit/s, lane 16 Gbit/s, memory 64 Gbit/s".
std::string CostsText(const CostParameters& costs);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_MEASURED_COSTS_H_
