// Stream capture, graphs, executable graphs and user objects: forwarded to the driver. Graphs,
// nodes and user objects have the same handles in both.

#include "emulation/runtime/entry.h"

namespace mccs::emulation {

// The runtime's enumerations and structures that are passed to the driver unchanged.
static_assert(static_cast<int>(cudaStreamCaptureModeRelaxed) == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(static_cast<int>(cudaStreamCaptureStatusInvalidated) ==
              CU_STREAM_CAPTURE_STATUS_INVALIDATED);
static_assert(static_cast<int>(cudaGraphNodeTypeMemFree) == CU_GRAPH_NODE_TYPE_MEM_FREE);
static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));

namespace {

CUgraphEdgeData* Edges(cudaGraphEdgeData* edges) {
  return reinterpret_cast<CUgraphEdgeData*>(edges);
}
const CUgraphEdgeData* Edges(const cudaGraphEdgeData* edges) {
  return reinterpret_cast<const CUgraphEdgeData*>(edges);
}

CUresult IsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
}

}  // namespace

MCCS_STREAM_CALL(cudaStreamBeginCapture,
                 cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)),
                 cudaStream_t stream, cudaStreamCaptureMode mode)
MCCS_STREAM_CALL(cudaStreamBeginCaptureToGraph,
                 cuStreamBeginCaptureToGraph(stream, graph, dependencies, Edges(edges), count,
                                             static_cast<CUstreamCaptureMode>(mode)),
                 cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                 const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode)
MCCS_STREAM_CALL(cudaStreamEndCapture, cuStreamEndCapture(stream, graph), cudaStream_t stream,
                 cudaGraph_t* graph)
MCCS_STREAM_CALL(cudaStreamIsCapturing, IsCapturing(stream, status), cudaStream_t stream,
                 cudaStreamCaptureStatus* status)
MCCS_STREAM_CALL(cudaStreamGetCaptureInfo,
                 cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                        reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
                                        reinterpret_cast<const CUgraphEdgeData**>(edges), count),
                 cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                 cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                 const cudaGraphEdgeData** edges, size_t* count)
MCCS_STREAM_CALL(cudaStreamUpdateCaptureDependencies,
                 cuStreamUpdateCaptureDependencies(stream, dependencies, Edges(edges), count,
                                                   flags),
                 cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                 size_t count, unsigned int flags)
MCCS_STREAM_CALL(cudaGraphLaunch, cuGraphLaunch(exec, stream), cudaGraphExec_t exec,
                 cudaStream_t stream)
MCCS_STREAM_CALL(cudaGraphUpload, cuGraphUpload(exec, stream), cudaGraphExec_t exec,
                 cudaStream_t stream)

// Defines the runtime's `name`, which forwards to the driver's `call`.
#define MCCS_GRAPH_CALL(name, call, ...)      \
  extern "C" cudaError_t name(__VA_ARGS__) {  \
    return WithContext([=] { return call; }); \
  }

MCCS_GRAPH_CALL(cudaGraphCreate, cuGraphCreate(graph, flags), cudaGraph_t* graph,
                unsigned int flags)
MCCS_GRAPH_CALL(cudaGraphDestroy, cuGraphDestroy(graph), cudaGraph_t graph)
MCCS_GRAPH_CALL(cudaGraphClone, cuGraphClone(clone, graph), cudaGraph_t* clone, cudaGraph_t graph)
MCCS_GRAPH_CALL(cudaGraphNodeFindInClone, cuGraphNodeFindInClone(found, original, clone),
                cudaGraphNode_t* found, cudaGraphNode_t original, cudaGraph_t clone)
MCCS_GRAPH_CALL(cudaGraphNodeGetType,
                cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)),
                cudaGraphNode_t node, cudaGraphNodeType* type)
MCCS_GRAPH_CALL(cudaGraphGetNodes, cuGraphGetNodes(graph, nodes, count), cudaGraph_t graph,
                cudaGraphNode_t* nodes, size_t* count)
MCCS_GRAPH_CALL(cudaGraphGetRootNodes, cuGraphGetRootNodes(graph, nodes, count), cudaGraph_t graph,
                cudaGraphNode_t* nodes, size_t* count)
MCCS_GRAPH_CALL(cudaGraphGetEdges, cuGraphGetEdges(graph, from, to, Edges(edges), count),
                cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                cudaGraphEdgeData* edges, size_t* count)
MCCS_GRAPH_CALL(cudaGraphNodeGetDependencies,
                cuGraphNodeGetDependencies(node, dependencies, Edges(edges), count),
                cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                size_t* count)
MCCS_GRAPH_CALL(cudaGraphNodeGetDependentNodes,
                cuGraphNodeGetDependentNodes(node, dependents, Edges(edges), count),
                cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* edges,
                size_t* count)
MCCS_GRAPH_CALL(cudaGraphAddDependencies,
                cuGraphAddDependencies(graph, from, to, Edges(edges), count), cudaGraph_t graph,
                const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                const cudaGraphEdgeData* edges, size_t count)
MCCS_GRAPH_CALL(cudaGraphRemoveDependencies,
                cuGraphRemoveDependencies(graph, from, to, Edges(edges), count), cudaGraph_t graph,
                const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                const cudaGraphEdgeData* edges, size_t count)
MCCS_GRAPH_CALL(cudaGraphDestroyNode, cuGraphDestroyNode(node), cudaGraphNode_t node)
MCCS_GRAPH_CALL(cudaGraphDebugDotPrint, cuGraphDebugDotPrint(graph, path, flags), cudaGraph_t graph,
                const char* path, unsigned int flags)

MCCS_GRAPH_CALL(cudaGraphInstantiate, cuGraphInstantiateWithFlags(exec, graph, flags),
                cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags)
MCCS_GRAPH_CALL(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags(exec, graph, flags),
                cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags)
MCCS_GRAPH_CALL(cudaGraphInstantiateWithParams,
                cuGraphInstantiateWithParams(
                    exec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params)),
                cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* params)
MCCS_GRAPH_CALL(cudaGraphInstantiateWithParams_ptsz,
                cuGraphInstantiateWithParams(
                    exec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(params)),
                cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* params)
MCCS_GRAPH_CALL(cudaGraphExecDestroy, cuGraphExecDestroy(exec), cudaGraphExec_t exec)
MCCS_GRAPH_CALL(cudaGraphExecGetFlags,
                cuGraphExecGetFlags(exec, reinterpret_cast<cuuint64_t*>(flags)),
                cudaGraphExec_t exec, unsigned long long* flags)
MCCS_GRAPH_CALL(cudaGraphExecUpdate,
                cuGraphExecUpdate(exec, graph,
                                  reinterpret_cast<CUgraphExecUpdateResultInfo*>(info)),
                cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info)
MCCS_GRAPH_CALL(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled(exec, node, enabled),
                cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled)
MCCS_GRAPH_CALL(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled(exec, node, enabled),
                cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int* enabled)

MCCS_GRAPH_CALL(cudaUserObjectCreate,
                cuUserObjectCreate(object, pointer, destroy, references, flags),
                cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                unsigned int references, unsigned int flags)
MCCS_GRAPH_CALL(cudaUserObjectRetain, cuUserObjectRetain(object, count), cudaUserObject_t object,
                unsigned int count)
MCCS_GRAPH_CALL(cudaUserObjectRelease, cuUserObjectRelease(object, count), cudaUserObject_t object,
                unsigned int count)
MCCS_GRAPH_CALL(cudaGraphRetainUserObject, cuGraphRetainUserObject(graph, object, count, flags),
                cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags)
MCCS_GRAPH_CALL(cudaGraphReleaseUserObject, cuGraphReleaseUserObject(graph, object, count),
                cudaGraph_t graph, cudaUserObject_t object, unsigned int count)

}  // namespace mccs::emulation
