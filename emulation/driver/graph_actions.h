// Converts handles of graphs and nodes, and CUDA's descriptions of nodes to node actions and back.
#ifndef MCCS_EMULATION_DRIVER_GRAPH_ACTIONS_H_
#define MCCS_EMULATION_DRIVER_GRAPH_ACTIONS_H_

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

// A node to create: its action and GPU. `session.gpu` is the caller's GPU.
struct NodeRequest {
  NodeAction action = DoNothing{};
  int gpu = 0;
};

// REQUIRES: the graphs' lock is held, and `*request` names the caller's GPU.
CUresult MakeAction(const CallContext& session, const CUDA_KERNEL_NODE_PARAMS& params,
                    NodeRequest* request);
CUresult MakeAction(const CallContext& session, const CUDA_MEMCPY3D& params, NodeRequest* request);
CUresult MakeAction(const CallContext& session, const CUDA_MEMSET_NODE_PARAMS& params,
                    NodeRequest* request);
CUresult MakeAction(const CallContext& session, const CUDA_HOST_NODE_PARAMS& params,
                    NodeRequest* request);
CUresult MakeAction(const CallContext& session, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params,
                    NodeRequest* request);
CUresult MakeChild(const CallContext& session, CUgraph graph, NodeRequest* request);
CUresult MakeEventRecord(const CallContext& session, CUevent event, NodeRequest* request);
CUresult MakeEventWait(const CallContext& session, CUevent event, NodeRequest* request);
// Any node type.
CUresult MakeAction(const CallContext& session, const CUgraphNodeParams& params,
                    NodeRequest* request);

void Describe(const KernelCall& call, CUDA_KERNEL_NODE_PARAMS* params);
void Describe(const CopyRows& copy, CUDA_MEMCPY3D* params);
void Describe(const FillRows& fill, CUDA_MEMSET_NODE_PARAMS* params);
void Describe(const HostCall& call, CUDA_HOST_NODE_PARAMS* params);
void Describe(const WordOperations& words, CUDA_BATCH_MEM_OP_NODE_PARAMS* params);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_GRAPH_ACTIONS_H_
