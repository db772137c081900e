// Nodes of graphs: adding them, and reading and changing their parameters.

#include <cstring>
#include <utility>

#include "emulation/driver/graph_actions.h"

namespace mccs::emulation {

using namespace mccs::emulation;

// cuda.h maps these names to their newest version; this file defines each version by its own name.
#undef cuGraphAddNode
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams

namespace {

struct Place {
  CUgraphNode* node;
  CUgraph graph;
  const CUgraphNode* dependencies;
  size_t count;
};

// `make`: one of the Make… functions with its parameters: CUresult(const CallContext&,
// NodeRequest*).
template <typename Make>
CUresult AddNode(const Place& place, Make make) {
  MCCS_ENTER_CONTEXT(session);
  if (place.node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<Graph> graph = graphs.graphs.Find(place.graph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> dependencies;
  if (!FindNodes(graphs, *graph, place.dependencies, place.count, &dependencies)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  NodeRequest request;
  request.gpu = session.gpu;
  const CUresult result = make(session, &request);
  if (result != CUDA_SUCCESS) return result;
  *place.node = HandleOf(graph->Add(std::move(request.action), request.gpu, dependencies));
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult Add(const Place& place, const Params* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddNode(place, [params](const CallContext& session, NodeRequest* request) {
    return MakeAction(session, *params, request);
  });
}

// Reads the parameters of a node whose action is an `Action`.
template <typename Action, typename Answer>
CUresult Ask(CUgraphNode handle, Answer answer) {
  MCCS_ENTER(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphNode> node = graphs.nodes.Find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* action = std::get_if<Action>(&node->action);
  if (action == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return answer(graphs, *action);
}

template <typename Action, typename Params>
CUresult GetParams(CUgraphNode handle, Params* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Ask<Action>(handle, [params](GraphState&, const Action& action) {
    Describe(action, params);
    return CUDA_SUCCESS;
  });
}

// Replaces the node's action by one of the same type: in the graph or, if `exec` is given, only in
// that executable graph.
template <typename Make>
CUresult Change(CUgraphExec* exec_handle, CUgraphNode handle, Make make) {
  MCCS_ENTER_CONTEXT(session);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const std::shared_ptr<GraphNode> node = graphs.nodes.Find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeRequest request;
  request.gpu = node->gpu;
  const CUresult result = make(session, &request);
  if (result != CUDA_SUCCESS) return result;
  if (TypeOf(request.action) != TypeOf(node->action)) return CUDA_ERROR_INVALID_VALUE;
  if (exec_handle == nullptr) {
    node->action = std::move(request.action);
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<GraphExec> exec = graphs.execs.Find(*exec_handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return exec->SetAction(node->id, std::move(request.action)) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
}

template <typename Params>
CUresult SetParams(CUgraphExec* exec, CUgraphNode node, const Params* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Change(exec, node, [params](const CallContext& session, NodeRequest* request) {
    return MakeAction(session, *params, request);
  });
}

using EventMaker = CUresult(const CallContext& session, CUevent event, NodeRequest* request);
CUresult AddEvent(const Place& place, EventMaker* make, CUevent event) {
  return AddNode(place, [=](const CallContext& session, NodeRequest* request) {
    return make(session, event, request);
  });
}
CUresult SetEvent(CUgraphExec* exec, CUgraphNode node, EventMaker* make, CUevent event) {
  return Change(exec, node, [=](const CallContext& session, NodeRequest* request) {
    return make(session, event, request);
  });
}
template <typename Action>
CUresult GetEvent(CUgraphNode node, CUevent* event) {
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Ask<Action>(node, [event](GraphState&, const Action& action) {
    *event = reinterpret_cast<CUevent>(action.event.get());
    return CUDA_SUCCESS;
  });
}

// Kernel parameters before CUDA 12 do not have the kernel's handle and context.
CUDA_KERNEL_NODE_PARAMS Widen(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  CUDA_KERNEL_NODE_PARAMS wide{};
  static_assert(sizeof(params) < sizeof(wide));
  std::memcpy(&wide, &params, sizeof(params));
  return wide;
}

}  // namespace

#define MCCS_PLACE CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count
#define MCCS_PLACE_ARGUMENTS \
  { node, graph, dependencies, count }

// The functions of one type of node: add, read, change in a graph and in an executable graph.
#define MCCS_NODE_GET(name, Action, Params) \
  CUresult name(CUgraphNode node, Params* params) { return GetParams<Action>(node, params); }
#define MCCS_NODE_SET(name, Params) \
  CUresult name(CUgraphNode node, const Params* params) { return SetParams(nullptr, node, params); }
#define MCCS_NODE_ADD(name, Params) \
  CUresult name(MCCS_PLACE, const Params* params) { return Add(MCCS_PLACE_ARGUMENTS, params); }
#define MCCS_EXEC_SET(name, Params)                                         \
  CUresult name(CUgraphExec exec, CUgraphNode node, const Params* params) { \
    return SetParams(&exec, node, params);                                  \
  }

extern "C" {

MCCS_NODE_ADD(cuGraphAddKernelNode_v2, CUDA_KERNEL_NODE_PARAMS)
MCCS_NODE_GET(cuGraphKernelNodeGetParams_v2, KernelCall, CUDA_KERNEL_NODE_PARAMS)
MCCS_NODE_SET(cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS)
MCCS_EXEC_SET(cuGraphExecKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS)

MCCS_NODE_GET(cuGraphMemcpyNodeGetParams, CopyRows, CUDA_MEMCPY3D)
MCCS_NODE_SET(cuGraphMemcpyNodeSetParams, CUDA_MEMCPY3D)

MCCS_NODE_GET(cuGraphMemsetNodeGetParams, FillRows, CUDA_MEMSET_NODE_PARAMS)
MCCS_NODE_SET(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS)

MCCS_NODE_ADD(cuGraphAddHostNode, CUDA_HOST_NODE_PARAMS)
MCCS_NODE_GET(cuGraphHostNodeGetParams, HostCall, CUDA_HOST_NODE_PARAMS)
MCCS_NODE_SET(cuGraphHostNodeSetParams, CUDA_HOST_NODE_PARAMS)
MCCS_EXEC_SET(cuGraphExecHostNodeSetParams, CUDA_HOST_NODE_PARAMS)

MCCS_NODE_ADD(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS)
MCCS_NODE_GET(cuGraphBatchMemOpNodeGetParams, WordOperations, CUDA_BATCH_MEM_OP_NODE_PARAMS)
MCCS_NODE_SET(cuGraphBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS)
MCCS_EXEC_SET(cuGraphExecBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS)

// Copies and fills have a context parameter.
CUresult cuGraphAddMemcpyNode(MCCS_PLACE, const CUDA_MEMCPY3D* params, CUcontext) {
  return Add(MCCS_PLACE_ARGUMENTS, params);
}
CUresult cuGraphAddMemsetNode(MCCS_PLACE, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return Add(MCCS_PLACE_ARGUMENTS, params);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* params, CUcontext) {
  return SetParams(&exec, node, params);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return SetParams(&exec, node, params);
}

CUresult cuGraphAddEmptyNode(MCCS_PLACE) {
  return AddNode(MCCS_PLACE_ARGUMENTS,
                 [](const CallContext&, NodeRequest*) { return CUDA_SUCCESS; });
}

CUresult cuGraphAddChildGraphNode(MCCS_PLACE, CUgraph child) {
  return AddNode(MCCS_PLACE_ARGUMENTS, [child](const CallContext& session, NodeRequest* request) {
    return MakeChild(session, child, request);
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* child) {
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Ask<ChildGraph>(node, [child](GraphState& graphs, const ChildGraph& action) {
    if (graphs.graphs.Find(action.graph.get()) == nullptr) graphs.graphs.Insert(action.graph);
    *child = HandleOf(action.graph.get());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddEventRecordNode(MCCS_PLACE, CUevent event) {
  return AddEvent(MCCS_PLACE_ARGUMENTS, MakeEventRecord, event);
}
CUresult cuGraphAddEventWaitNode(MCCS_PLACE, CUevent event) {
  return AddEvent(MCCS_PLACE_ARGUMENTS, MakeEventWait, event);
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent<RecordEvent>(node, event);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent<AwaitEvent>(node, event);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetEvent(nullptr, node, MakeEventRecord, event);
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetEvent(nullptr, node, MakeEventWait, event);
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return SetEvent(&exec, node, MakeEventRecord, event);
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return SetEvent(&exec, node, MakeEventWait, event);
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData*, size_t count, CUgraphNodeParams* params) {
  return Add(MCCS_PLACE_ARGUMENTS, params);
}
CUresult cuGraphAddNode(MCCS_PLACE, CUgraphNodeParams* params) {
  return Add(MCCS_PLACE_ARGUMENTS, params);
}
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return SetParams(nullptr, node, params);
}
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return SetParams(&exec, node, params);
}

// The versions before CUDA 12.
CUresult cuGraphAddKernelNode(MCCS_PLACE, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = Widen(*params);
  return Add(MCCS_PLACE_ARGUMENTS, &wide);
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS wide{};
  const CUresult result = GetParams<KernelCall>(node, &wide);
  if (result == CUDA_SUCCESS) std::memcpy(params, &wide, sizeof(*params));
  return result;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = Widen(*params);
  return SetParams(nullptr, node, &wide);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS wide = Widen(*params);
  return SetParams(&exec, node, &wide);
}

}  // extern "C"

}  // namespace mccs::emulation
