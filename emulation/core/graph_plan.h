// The flattened form of a graph for its launch: steps in an order that respects all edges, each in
// one of a few chains. Steps of one chain run in sequence in one stream. Steps of different chains
// run concurrently unless an edge orders them.
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

// Maximum number of chains. Further branches share them, as a GPU's streams share hardware queues.
inline constexpr size_t kMaxChains = 16;

using StepAction = std::variant<Work, AwaitEvent, RecordEvent>;

struct PlanStep {
  StepAction action;
  uint64_t node = 0;  // id of the node of the launched graph, also for steps of its child graphs
  size_t chain = 0;
  std::vector<size_t> after;  // earlier steps of other chains
  bool root = false;          // has no predecessor, neither in its chain
};

struct GraphPlan {
  std::vector<PlanStep> steps;
  std::vector<int> chain_gpus;
  std::vector<size_t> ends;  // the last step of each chain
};

// Empty if the graph has a cycle.
std::optional<GraphPlan> BuildPlan(const Graph& graph);

// Returns the steps of one node's action, without dependencies.
std::vector<StepAction> StepsOf(const NodeAction& action);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_PLAN_H_
