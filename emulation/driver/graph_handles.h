// Conversions between graphs or nodes and their handles.
#ifndef MCCS_EMULATION_DRIVER_GRAPH_HANDLES_H_
#define MCCS_EMULATION_DRIVER_GRAPH_HANDLES_H_

#include <vector>

#include "emulation/driver/entry.h"

namespace mccs::emulation {

inline CUgraph HandleOf(Graph* graph) { return reinterpret_cast<CUgraph>(graph); }
inline CUgraphNode HandleOf(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

// Looks up nodes. Returns false unless all handles are nodes of this graph. REQUIRES: the graphs'
// lock is held.
inline bool FindNodes(const GraphState& graphs, const Graph& graph, const CUgraphNode* handles,
                      size_t count, std::vector<GraphNode*>* nodes) {
  if (count > 0 && handles == nullptr) return false;
  for (size_t i = 0; i < count; ++i) {
    const std::shared_ptr<GraphNode> node = graphs.nodes.Find(handles[i]);
    if (node == nullptr || node->graph != &graph) return false;
    nodes->push_back(node.get());
  }
  return true;
}

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_GRAPH_HANDLES_H_
