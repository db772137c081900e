// The costs by which a communicator's calls are chosen for (algorithms/cost.h), from what its
// daemons measure of the network (proto/agent.proto). Pure.
#ifndef MCCS_CONTROLLER_MEASURED_COSTS_H_
#define MCCS_CONTROLLER_MEASURED_COSTS_H_

#include <optional>
#include <string>

#include "algorithms/cost.h"
#include "controller/registry.h"
#include "proto/strategy.pb.h"

namespace mccs {

// Held within bounds, whatever daemons say.
struct MeasuredFigures {
  // Of a short slice from host to host, with what both are busy with it.
  std::optional<double> one_way_us = {};
  std::optional<double> host_bytes_per_us = {};
  // Of a host's passes over its memory, with what else its processors had to do.
  std::optional<double> local_bytes_per_us = {};

  friend bool operator==(const MeasuredFigures&, const MeasuredFigures&) = default;
};

// Under the strategy in force: medians over the hosts, of each host over its lanes for collectives.
// Nothing where fewer than half of the hosts have the figure.
MeasuredFigures MeasuredOf(const CommunicatorRecord& communicator);

// Costs in force.
CostParameters CostsOf(const strategy::AlgorithmChoice& choice);
// Those that the daemons have of themselves.
CostParameters OwnCostsOf(const strategy::AlgorithmChoice& choice);

// `in_force` with what was measured. A slice's time, an operation's and the ratio of a lane's rate
// to its host's are the daemons' own, and a hop takes no less than theirs: the smallest round trip
// is one for which no processor was waited for. Nothing: those are none with which anything could
// be reckoned.
std::optional<CostParameters> Calibrate(const CostParameters& in_force, const CostParameters& own,
                                        const MeasuredFigures& measured);

// A slice takes twice as long with the one as with the other, or a host has half the rate, over
// its lanes or its memory.
bool FarApart(const CostParameters& one, const CostParameters& other);

// From now on it goes by `costs`; its own ones are kept beside them.
void PutCosts(const CostParameters& costs, strategy::Strategy* strategy);

// "a hop 10 us, a host 16 Gbps, a lane 16 Gbps, passes over memory 64 Gbps".
std::string CostsText(const CostParameters& costs);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_MEASURED_COSTS_H_
