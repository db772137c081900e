// Graphs: creation and destruction, nodes and edges, and queries about them.

#include <cstdio>
#include <cstring>

#include "emulation/driver/graph_actions.h"

namespace mccs::emulation {

// cuda.h maps these names to their newest version; this file defines each version by its own name.
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies

namespace {

// Returns from the function unless `handle` is a graph; then holds the graphs' lock to the
// function's end.
#define MCCS_WITH_GRAPH(session, graphs, graph, handle)            \
  MCCS_ENTER(session);                                             \
  [[maybe_unused]] GraphState& graphs = session.process->graphs;   \
  std::lock_guard graphs##_lock(graphs.mutex);                     \
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(handle); \
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE
#define MCCS_WITH_NODE(session, graphs, node, handle)                \
  MCCS_ENTER(session);                                               \
  [[maybe_unused]] GraphState& graphs = session.process->graphs;     \
  std::lock_guard graphs##_lock(graphs.mutex);                       \
  const std::shared_ptr<GraphNode> node = graphs.nodes.Find(handle); \
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE

// Returns a list as CUDA does: without an output array only the count, otherwise as many nodes as
// fit; unused entries of the array become null.
CUresult ReturnList(const std::vector<GraphNode*>& nodes, CUgraphNode* place, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (place == nullptr) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) place[i] = i < nodes.size() ? HandleOf(nodes[i]) : nullptr;
  if (*count > nodes.size()) *count = nodes.size();
  return CUDA_SUCCESS;
}

void ClearEdges(CUgraphEdgeData* edges, const size_t* count) {
  if (edges != nullptr && count != nullptr) memset(edges, 0, *count * sizeof(*edges));
}

CUresult GetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                  size_t* count) {
  MCCS_WITH_GRAPH(session, graphs, graph, handle);
  std::vector<GraphNode*> starts;
  std::vector<GraphNode*> ends;
  for (const auto& node : graph->nodes()) {
    for (GraphNode* earlier : node->dependencies) {
      starts.push_back(earlier);
      ends.push_back(node.get());
    }
  }
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  size_t places = *count;
  ReturnList(starts, from, &places);
  const CUresult result = ReturnList(ends, to, count);
  if (from != nullptr) ClearEdges(data, count);
  return result;
}

CUresult GetDependencies(CUgraphNode handle, CUgraphNode* place, CUgraphEdgeData* data,
                         size_t* count) {
  MCCS_WITH_NODE(session, graphs, node, handle);
  const CUresult result = ReturnList(node->dependencies, place, count);
  if (place != nullptr) ClearEdges(data, count);
  return result;
}

CUresult GetDependents(CUgraphNode handle, CUgraphNode* place, CUgraphEdgeData* data,
                       size_t* count) {
  MCCS_WITH_NODE(session, graphs, node, handle);
  const CUresult result = ReturnList(node->graph->DependentsOf(node.get()), place, count);
  if (place != nullptr) ClearEdges(data, count);
  return result;
}

// `change`: Graph::Connect or Graph::Disconnect.
CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count,
                     bool (Graph::*change)(GraphNode*, GraphNode*)) {
  MCCS_WITH_GRAPH(session, graphs, graph, handle);
  std::vector<GraphNode*> starts;
  std::vector<GraphNode*> ends;
  if (!FindNodes(graphs, *graph, from, count, &starts) ||
      !FindNodes(graphs, *graph, to, count, &ends)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (starts[i] == ends[i]) return CUDA_ERROR_INVALID_VALUE;
    if (!(graph.get()->*change)(starts[i], ends[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* handle, unsigned int flags) {
  MCCS_ENTER(session);
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  GraphState& graphs = session.process->graphs;
  *handle = static_cast<CUgraph>(graphs.graphs.Insert(std::make_shared<Graph>(&graphs.nodes)));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  MCCS_WITH_GRAPH(session, graphs, graph, handle);
  if (graph->is_child()) return CUDA_ERROR_INVALID_VALUE;  // it belongs to its node
  graphs.Retire(graph, {});
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  MCCS_WITH_GRAPH(session, graphs, graph, original);
  if (clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *clone = static_cast<CUgraph>(graphs.graphs.Insert(graph->Clone()));
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph clone) {
  MCCS_WITH_NODE(session, graphs, node, original);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(clone);
  if (found == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& candidate : graph->nodes()) {
    if (candidate->cloned_from != node->id) continue;
    *found = HandleOf(candidate.get());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  MCCS_WITH_NODE(session, graphs, node, handle);
  if (const auto* child = std::get_if<ChildGraph>(&node->action)) {
    graphs.Retire(child->graph, {});
  }
  node->graph->Remove(node.get());
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* place, size_t* count) {
  MCCS_WITH_GRAPH(session, graphs, graph, handle);
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(node.get());
  return ReturnList(nodes, place, count);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* place, size_t* count) {
  MCCS_WITH_GRAPH(session, graphs, graph, handle);
  return ReturnList(graph->Roots(), place, count);
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  MCCS_WITH_NODE(session, graphs, node, handle);
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = TypeOf(node->action);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  return GetEdges(graph, from, to, data, count);
}
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return GetEdges(graph, from, to, nullptr, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* place, CUgraphEdgeData* data,
                                       size_t* count) {
  return GetDependencies(node, place, data, count);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* place, size_t* count) {
  return GetDependencies(node, place, nullptr, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* place,
                                         CUgraphEdgeData* data, size_t* count) {
  return GetDependents(node, place, data, count);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* place, size_t* count) {
  return GetDependents(node, place, nullptr, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData*, size_t count) {
  return ChangeEdges(graph, from, to, count, &Graph::Connect);
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return ChangeEdges(graph, from, to, count, &Graph::Connect);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData*, size_t count) {
  return ChangeEdges(graph, from, to, count, &Graph::Disconnect);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return ChangeEdges(graph, from, to, count, &Graph::Disconnect);
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int) {
  MCCS_WITH_GRAPH(session, graphs, graph, handle);
  FILE* const file = path == nullptr ? nullptr : fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  fprintf(file, "digraph graph_%p {\n", static_cast<void*>(graph.get()));
  for (const auto& node : graph->nodes()) {
    const auto id = static_cast<unsigned long long>(node->id);
    fprintf(file, "  n%llu [label=\"node %llu, type %d\"];\n", id, id,
            static_cast<int>(TypeOf(node->action)));
    for (const GraphNode* earlier : node->dependencies) {
      fprintf(file, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(earlier->id), id);
    }
  }
  fprintf(file, "}\n");
  return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // extern "C"

// ---- User objects ------------------------------------------------------------------------------

extern "C" {

CUresult cuUserObjectCreate(CUuserObject* handle, void* pointer, CUhostFn destroy,
                            unsigned int references, unsigned int flags) {
  MCCS_ENTER(session);
  if (handle == nullptr || destroy == nullptr || references == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto object = std::make_shared<UserObject>();
  object->pointer = pointer;
  object->destroy = destroy;
  object->references = references;
  *handle = static_cast<CUuserObject>(session.process->graphs.user_objects.Insert(object));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  MCCS_ENTER(session);
  const auto object = session.process->graphs.user_objects.Find(handle);
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  object->references.fetch_add(count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const auto object = graphs.user_objects.Find(handle);
  if (object == nullptr || count == 0 || object->references.load() < count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graphs.Release(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(graph_handle);
  const auto object = graphs.user_objects.Find(handle);
  if (graph == nullptr || object == nullptr || count == 0 ||
      (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Moved references belong to the caller, who has counted them already.
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->references.fetch_add(count);
  graph->objects().Add(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(graph_handle);
  const auto object = graphs.user_objects.Find(handle);
  if (graph == nullptr || object == nullptr || !graph->objects().Remove(object, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graphs.Release(object, count);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace mccs::emulation
