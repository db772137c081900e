// What a graph does when it is launched, flattened: steps in an order that respects all edges, each
// in one of a few chains. Steps of one chain run one after the other in one stream; steps of
// different chains run beside each other unless an edge says otherwise.
//
// Pure. THREAD: as for graphs, while the plan is built; a plan is a value.
#ifndef MCCS_EMULATION_CORE_GRAPH_PLAN_H_
#define MCCS_EMULATION_CORE_GRAPH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "emulation/core/graph.h"

namespace mccs::emulation {

// More branches than this share chains, as a GPU's streams share hardware queues.
inline constexpr size_t kMaxChains = 16;

using StepAction = std::variant<Work, AwaitEvent, RecordEvent>;

struct PlanStep {
  StepAction action;
  uint64_t node = 0;  // id of the node of the launched graph, also for what is inside its children
  size_t chain = 0;
  std::vector<size_t> after;  // earlier steps of other chains
  bool root = false;          // comes after nothing, in its chain neither
};

struct GraphPlan {
  std::vector<PlanStep> steps;
  std::vector<int> chain_gpus;
  std::vector<size_t> ends;  // the last step of each chain
};

// Empty where the graph's edges go round in a circle.
std::optional<GraphPlan> BuildPlan(const Graph& graph);

// The steps of one node's action, without order.
std::vector<StepAction> StepsOf(const NodeAction& action);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_PLAN_H_
