// CUDA graphs: nodes with one action each, and the dependencies between them.
//
// A graph is a description. An executable graph (graph_plan.h, graph_exec.h) is built from it once
// and does not follow later changes.
//
// THREAD: GraphState::mutex (graph_state.h) guards all graphs and nodes of the process.
#ifndef MCCS_EMULATION_CORE_GRAPH_H_
#define MCCS_EMULATION_CORE_GRAPH_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "emulation/core/event.h"
#include "emulation/core/handle_table.h"
#include "emulation/core/kernel_table.h"
#include "emulation/core/work.h"

namespace mccs::emulation {

class Graph;

// An object of the program that lives as long as graphs refer to it (cuUserObjectCreate).
//
// A destructor is code of the program. It never runs inside a CUDA call, so that the caller may
// hold any lock. A thread of the emulation runs it (GraphState::Release).
struct UserObject {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<uint64_t> references{0};
};

// References that one graph or executable graph holds. Copying this object does not count them.
class UserReferences {
 public:
  void Add(const std::shared_ptr<UserObject>& object, uint64_t count);
  // Returns false if fewer are held.
  bool Remove(const std::shared_ptr<UserObject>& object, uint64_t count);
  // Adds the same references for another holder.
  UserReferences Duplicate() const;
  bool empty() const { return counts_.empty(); }
  // Releases all references and returns the objects without remaining references.
  std::vector<std::shared_ptr<UserObject>> ReleaseAll();

 private:
  std::map<std::shared_ptr<UserObject>, uint64_t> counts_;
};

struct KernelCall {
  const NamedKernel* kernel = nullptr;
  PreparedLaunch launch;
  std::optional<WaitWord> watch;  // the kernel's only action, if launch.watches()
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
// Words to write and to wait for, in order.
struct WordOperations {
  std::vector<Work> works;
  std::vector<CUstreamBatchMemOpParams> requested;  // for queries
};

using NodeAction = std::variant<KernelCall, CopyRows, FillRows, HostCall, ChildGraph, DoNothing,
                                AwaitEvent, RecordEvent, WordOperations>;
CUgraphNodeType TypeOf(const NodeAction& action);

// The CUgraphNode is its address.
struct GraphNode {
  Graph* graph = nullptr;
  uint64_t id = 0;  // never reused in a process
  NodeAction action = DoNothing{};
  int gpu = 0;
  std::vector<GraphNode*> dependencies;  // nodes of the same graph
  uint64_t cloned_from = 0;              // id of the original, in a clone
};

class Graph {
 public:
  // `names`: table of the nodes' handles. LIFETIME: outlives the graph.
  explicit Graph(HandleTable<GraphNode>* names) : names_(names) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  // REQUIRES: the dependencies are nodes of this graph.
  GraphNode* Add(NodeAction action, int gpu, std::span<GraphNode* const> dependencies);
  // Removes a node and its edges.
  void Remove(GraphNode* node);
  // Return false if the edge exists already (Connect) or does not exist (Disconnect).
  bool Connect(GraphNode* from, GraphNode* to);
  bool Disconnect(GraphNode* from, GraphNode* to);

  // Returns a copy, with copies of its child graphs and references to its user objects.
  std::shared_ptr<Graph> Clone() const;
  // Marks a graph that belongs to a node.
  static std::shared_ptr<Graph> AsChild(std::shared_ptr<Graph> graph) {
    graph->is_child_ = true;
    return graph;
  }
  bool is_child() const { return is_child_; }

  // In order of creation.
  const std::vector<std::shared_ptr<GraphNode>>& nodes() const { return nodes_; }
  std::vector<GraphNode*> Roots() const;
  std::vector<GraphNode*> DependentsOf(const GraphNode* node) const;

  // Returns every node after its dependencies, otherwise in order of creation. Empty if the graph
  // has a cycle.
  std::optional<std::vector<const GraphNode*>> TopologicalOrder() const;

  UserReferences& objects() { return objects_; }
  const UserReferences& objects() const { return objects_; }

 private:
  HandleTable<GraphNode>* const names_;
  std::vector<std::shared_ptr<GraphNode>> nodes_;
  UserReferences objects_;
  bool is_child_ = false;
};

// Appends the nodes that are not in `*to` yet.
void AppendMissing(std::vector<GraphNode*>* to, std::span<GraphNode* const> nodes);

// Returns the nodes and all their ancestors.
std::vector<const GraphNode*> WithAncestors(std::span<GraphNode* const> nodes);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_H_
