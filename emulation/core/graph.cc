#include "emulation/core/graph.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <utility>

namespace mccs::emulation {
namespace {

uint64_t NextNodeId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

NodeAction CloneAction(const NodeAction& action) {
  if (const auto* child = std::get_if<ChildGraph>(&action)) {
    return ChildGraph{Graph::AsChild(child->graph->Clone())};
  }
  return action;
}

}  // namespace

CUgraphNodeType TypeOf(const NodeAction& action) {
  constexpr CUgraphNodeType kByIndex[] = {
      CU_GRAPH_NODE_TYPE_KERNEL,       CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,       CU_GRAPH_NODE_TYPE_HOST,
      CU_GRAPH_NODE_TYPE_GRAPH,        CU_GRAPH_NODE_TYPE_EMPTY,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT,   CU_GRAPH_NODE_TYPE_EVENT_RECORD,
      CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
  };
  static_assert(std::size(kByIndex) == std::variant_size_v<NodeAction>);
  return kByIndex[action.index()];
}

Work WorkOf(const KernelCall& call) {
  if (call.watch) return *call.watch;
  if (call.launch.resumable()) {
    return ResumableKernel{std::make_shared<const PreparedLaunch>(call.launch), nullptr};
  }
  return ProgramCode{call.launch};
}

Graph::~Graph() {
  for (const std::shared_ptr<GraphNode>& node : nodes_) names_->Remove(node.get());
}

GraphNode* Graph::Add(NodeAction action, int gpu, std::span<GraphNode* const> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = this;
  node->id = NextNodeId();
  node->action = std::move(action);
  node->gpu = gpu;
  node->dependencies.assign(dependencies.begin(), dependencies.end());
  nodes_.push_back(node);
  return static_cast<GraphNode*>(names_->Insert(std::move(node)));
}

void Graph::Remove(GraphNode* node) {
  for (const std::shared_ptr<GraphNode>& other : nodes_) std::erase(other->dependencies, node);
  names_->Remove(node);
  std::erase_if(nodes_, [node](const auto& candidate) { return candidate.get() == node; });
}

bool Graph::Connect(GraphNode* from, GraphNode* to) {
  if (std::find(to->dependencies.begin(), to->dependencies.end(), from) != to->dependencies.end()) {
    return false;
  }
  to->dependencies.push_back(from);
  return true;
}

bool Graph::Disconnect(GraphNode* from, GraphNode* to) {
  return std::erase(to->dependencies, from) > 0;
}

std::shared_ptr<Graph> Graph::Clone() const {
  auto clone = std::make_shared<Graph>(names_);
  std::map<const GraphNode*, GraphNode*> copies;
  for (const std::shared_ptr<GraphNode>& node : nodes_) {
    GraphNode* copy = clone->Add(CloneAction(node->action), node->gpu, {});
    copy->cloned_from = node->id;
    copies[node.get()] = copy;
  }
  for (const std::shared_ptr<GraphNode>& node : nodes_) {
    for (const GraphNode* earlier : node->dependencies) {
      copies[node.get()]->dependencies.push_back(copies[earlier]);
    }
  }
  clone->objects_ = objects_.Duplicate();
  return clone;
}

std::vector<GraphNode*> Graph::Roots() const {
  std::vector<GraphNode*> roots;
  for (const std::shared_ptr<GraphNode>& node : nodes_) {
    if (node->dependencies.empty()) roots.push_back(node.get());
  }
  return roots;
}

std::vector<GraphNode*> Graph::DependentsOf(const GraphNode* node) const {
  std::vector<GraphNode*> dependents;
  for (const std::shared_ptr<GraphNode>& other : nodes_) {
    if (std::find(other->dependencies.begin(), other->dependencies.end(), node) !=
        other->dependencies.end()) {
      dependents.push_back(other.get());
    }
  }
  return dependents;
}

// Kahn's algorithm; picks the oldest of the nodes that may come next.
std::optional<std::vector<const GraphNode*>> Graph::TopologicalOrder() const {
  std::map<const GraphNode*, size_t> places;
  std::vector<size_t> missing(nodes_.size());
  std::vector<std::vector<size_t>> dependents(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) places[nodes_[i].get()] = i;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    missing[i] = nodes_[i]->dependencies.size();
    for (const GraphNode* earlier : nodes_[i]->dependencies) {
      dependents[places.at(earlier)].push_back(i);
    }
    if (missing[i] == 0) ready.push(i);
  }
  std::vector<const GraphNode*> order;
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    order.push_back(nodes_[next].get());
    for (const size_t dependent : dependents[next]) {
      if (--missing[dependent] == 0) ready.push(dependent);
    }
  }
  if (order.size() != nodes_.size()) return std::nullopt;
  return order;
}

void AppendMissing(std::vector<GraphNode*>* to, std::span<GraphNode* const> nodes) {
  for (GraphNode* node : nodes) {
    if (std::find(to->begin(), to->end(), node) == to->end()) to->push_back(node);
  }
}

std::vector<const GraphNode*> WithAncestors(std::span<GraphNode* const> nodes) {
  std::set<const GraphNode*> seen(nodes.begin(), nodes.end());
  std::vector<const GraphNode*> found(seen.begin(), seen.end());
  for (size_t i = 0; i < found.size(); ++i) {
    for (const GraphNode* earlier : found[i]->dependencies) {
      if (seen.insert(earlier).second) found.push_back(earlier);
    }
  }
  return found;
}

// ---- User objects ------------------------------------------------------------------------------

void UserReferences::Add(const std::shared_ptr<UserObject>& object, uint64_t count) {
  counts_[object] += count;
}

bool UserReferences::Remove(const std::shared_ptr<UserObject>& object, uint64_t count) {
  const auto found = counts_.find(object);
  if (found == counts_.end() || found->second < count) return false;
  found->second -= count;
  if (found->second == 0) counts_.erase(found);
  return true;
}

UserReferences UserReferences::Duplicate() const {
  for (const auto& [object, count] : counts_) object->references.fetch_add(count);
  return *this;
}

std::vector<std::shared_ptr<UserObject>> UserReferences::ReleaseAll() {
  std::vector<std::shared_ptr<UserObject>> unused;
  for (const auto& [object, count] : counts_) {
    if (object->references.fetch_sub(count) == count) unused.push_back(object);
  }
  counts_.clear();
  return unused;
}

}  // namespace mccs::emulation
