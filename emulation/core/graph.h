// CUDA graphs: nodes that do one thing each, and which of them come after which.
//
// A graph is a description. What is launched is made from it once (graph_plan.h, graph_exec.h) and
// does not change with it.
//
// THREAD: GraphState::mutex (graph_state.h) guards all graphs and nodes of the process.
#ifndef MCCS_EMULATION_CORE_GRAPH_H_
#define MCCS_EMULATION_CORE_GRAPH_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "emulation/core/event.h"
#include "emulation/core/handle_table.h"
#include "emulation/core/kernel_table.h"
#include "emulation/core/user_object.h"
#include "emulation/core/work.h"

namespace mccs::emulation {

class Graph;

struct KernelCall {
  const NamedKernel* kernel = nullptr;
  PreparedLaunch launch;
  std::optional<WaitWord> watch;  // all that it does, where launch.watches()
};
Work WorkOf(const KernelCall& call);
struct HostCall {
  CUhostFn function = nullptr;
  void* data = nullptr;
};
struct ChildGraph {
  std::shared_ptr<Graph> graph;  // the node's own copy
};
struct DoNothing {};
struct AwaitEvent {
  std::shared_ptr<Event> event;
};
struct RecordEvent {
  std::shared_ptr<Event> event;
};
// Words written and waited for, one after the other.
struct WordOperations {
  std::vector<Work> works;
  std::vector<CUstreamBatchMemOpParams> asked;  // for questions
};

using NodeAction = std::variant<KernelCall, CopyRows, FillRows, HostCall, ChildGraph, DoNothing,
                                AwaitEvent, RecordEvent, WordOperations>;
CUgraphNodeType TypeOf(const NodeAction& action);

// A CUgraphNode is its address.
struct GraphNode {
  Graph* graph = nullptr;
  uint64_t id = 0;  // never used twice in a process
  NodeAction action = DoNothing{};
  int gpu = 0;
  std::vector<GraphNode*> dependencies;  // nodes of the same graph
  uint64_t cloned_from = 0;              // id of the original, in a clone
};

class Graph {
 public:
  // `names`: where the nodes' handles are known. LIFETIME: outlives the graph.
  explicit Graph(HandleTable<GraphNode>* names) : names_(names) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // REQUIRES: the dependencies are nodes of this graph.
  GraphNode* Add(NodeAction action, int gpu, std::span<GraphNode* const> dependencies);
  // Takes a node out, with its edges.
  void Remove(GraphNode* node);
  // False where the edge is there already (Connect) or is not (Disconnect).
  bool Connect(GraphNode* from, GraphNode* to);
  bool Disconnect(GraphNode* from, GraphNode* to);

  // A copy, with copies of its child graphs and references to its user objects.
  std::shared_ptr<Graph> Clone() const;
  // For a graph that belongs to a node.
  static std::shared_ptr<Graph> AsChild(std::shared_ptr<Graph> graph) {
    graph->is_child_ = true;
    return graph;
  }
  bool is_child() const { return is_child_; }

  // In the order of their making.
  const std::vector<std::shared_ptr<GraphNode>>& nodes() const { return nodes_; }
  std::vector<GraphNode*> Roots() const;
  std::vector<GraphNode*> DependentsOf(const GraphNode* node) const;

  // Every node after those it depends on, otherwise in the order of their making. Empty where the
  // edges go round in a circle.
  std::optional<std::vector<const GraphNode*>> InOrder() const;

  UserReferences& objects() { return objects_; }
  const UserReferences& objects() const { return objects_; }

 private:
  HandleTable<GraphNode>* const names_;
  std::vector<std::shared_ptr<GraphNode>> nodes_;
  UserReferences objects_;
  bool is_child_ = false;
};

// Appends those that are not there yet.
void AddNew(std::vector<GraphNode*>* to, std::span<GraphNode* const> nodes);

// The nodes themselves and all that come before them.
std::vector<const GraphNode*> WithAncestors(std::span<GraphNode* const> nodes);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_H_
