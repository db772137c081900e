// Nodes of graphs, with the runtime's parameter structures.

#include <cstring>

#include "emulation/runtime/copy_descriptions.h"
#include "emulation/runtime/entry.h"

namespace mccs::emulation {

static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));

namespace {

// `Call`: one of the driver's structures.
template <typename Call, typename Params>
Call KernelCallOf(const Params& params) {
  Call call{};
  call.func = FunctionOf(params.func);
  if (call.func == nullptr) call.func = reinterpret_cast<CUfunction>(params.func);
  call.gridDimX = params.gridDim.x;
  call.gridDimY = params.gridDim.y;
  call.gridDimZ = params.gridDim.z;
  call.blockDimX = params.blockDim.x;
  call.blockDimY = params.blockDim.y;
  call.blockDimZ = params.blockDim.z;
  call.sharedMemBytes = params.sharedMemBytes;
  call.kernelParams = params.kernelParams;
  call.extra = params.extra;
  return call;
}

CUDA_KERNEL_NODE_PARAMS Driver(const cudaKernelNodeParams& params) {
  return KernelCallOf<CUDA_KERNEL_NODE_PARAMS>(params);
}
CUDA_MEMCPY3D Driver(const cudaMemcpy3DParms& params) { return CopyOf(params); }
const CUDA_MEMSET_NODE_PARAMS& Driver(const cudaMemsetParams& params) {
  return reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS&>(params);
}
const CUDA_HOST_NODE_PARAMS& Driver(const cudaHostNodeParams& params) {
  return reinterpret_cast<const CUDA_HOST_NODE_PARAMS&>(params);
}

// Converts the runtime's general node description, which has the driver's layout except for kernels
// and copies.
CUresult Driver(const cudaGraphNodeParams& params, CUgraphNodeParams* node) {
  memcpy(node, &params, sizeof(*node));
  if (params.type == cudaGraphNodeTypeKernel) {
    node->kernel = KernelCallOf<decltype(node->kernel)>(params.kernel);
  }
  if (params.type == cudaGraphNodeTypeMemcpy) {
    if (params.memcpy.copyParams.srcArray != nullptr ||
        params.memcpy.copyParams.dstArray != nullptr) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    node->memcpy = {};
    node->memcpy.copyParams = CopyOf(params.memcpy.copyParams);
  }
  if (params.type == cudaGraphNodeTypeMemset) node->memset.ctx = nullptr;
  return CUDA_SUCCESS;
}

cudaMemcpy3DParms Flat(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpy3DParms copy{};
  copy.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  copy.dstPtr = {to, bytes, bytes, 1};
  copy.extent = {bytes, 1, 1};
  copy.kind = kind;
  return copy;
}

// Runs `call` with the driver's form of the parameters.
template <typename Params, typename Call>
cudaError_t WithParams(const Params* params, Call call) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const auto& own = Driver(*params);
    return call(&own);
  });
}
template <typename Call>
cudaError_t WithParams(cudaGraphNodeParams* params, Call call) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUgraphNodeParams own;
    const CUresult result = Driver(*params, &own);
    return result == CUDA_SUCCESS ? call(&own) : result;
  });
}

}  // namespace

// Defines `name`, which forwards to the driver's `call`, from a list of parameters. A pointer to
// `Params` follows them; `own` is its driver's form.
#define MCCS_NODE_CALL(name, Params, call, ...)                       \
  extern "C" cudaError_t name(__VA_ARGS__, const Params* params) {    \
    return WithParams(params, [=](const auto* own) { return call; }); \
  }

#define MCCS_PLACE \
  cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count

extern "C" {

MCCS_NODE_CALL(cudaGraphAddKernelNode, cudaKernelNodeParams,
               cuGraphAddKernelNode(node, graph, dependencies, count, own), MCCS_PLACE)

// `func` becomes the driver's handle, which every function here accepts in place of a host stub.
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUDA_KERNEL_NODE_PARAMS call{};
    const CUresult result = cuGraphKernelNodeGetParams(node, &call);
    if (result != CUDA_SUCCESS) return result;
    *params = {call.func,
               dim3(call.gridDimX, call.gridDimY, call.gridDimZ),
               dim3(call.blockDimX, call.blockDimY, call.blockDimZ),
               call.sharedMemBytes,
               call.kernelParams,
               call.extra};
    return result;
  });
}

MCCS_NODE_CALL(cudaGraphKernelNodeSetParams, cudaKernelNodeParams,
               cuGraphKernelNodeSetParams(node, own), cudaGraphNode_t node)
MCCS_NODE_CALL(cudaGraphExecKernelNodeSetParams, cudaKernelNodeParams,
               cuGraphExecKernelNodeSetParams(exec, node, own), cudaGraphExec_t exec,
               cudaGraphNode_t node)

cudaError_t cudaGraphAddMemcpyNode(MCCS_PLACE, const cudaMemcpy3DParms* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  if (params->srcArray != nullptr || params->dstArray != nullptr) {
    return Report(cudaErrorNotSupported);
  }
  return WithContext([=] {
    const CUDA_MEMCPY3D copy = Driver(*params);
    return cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, nullptr);
  });
}

cudaError_t cudaGraphAddMemcpyNode1D(MCCS_PLACE, void* to, const void* from, size_t bytes,
                                     cudaMemcpyKind kind) {
  const cudaMemcpy3DParms copy = Flat(to, from, bytes, kind);
  return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &copy);
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUDA_MEMCPY3D copy{};
    const CUresult result = cuGraphMemcpyNodeGetParams(node, &copy);
    if (result == CUDA_SUCCESS) *params = DescribeCopy(copy);
    return result;
  });
}

MCCS_NODE_CALL(cudaGraphMemcpyNodeSetParams, cudaMemcpy3DParms,
               cuGraphMemcpyNodeSetParams(node, own), cudaGraphNode_t node)

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from,
                                           size_t bytes, cudaMemcpyKind kind) {
  const cudaMemcpy3DParms copy = Flat(to, from, bytes, kind);
  return cudaGraphMemcpyNodeSetParams(node, &copy);
}

MCCS_NODE_CALL(cudaGraphExecMemcpyNodeSetParams, cudaMemcpy3DParms,
               cuGraphExecMemcpyNodeSetParams(exec, node, own, nullptr), cudaGraphExec_t exec,
               cudaGraphNode_t node)

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes,
                                               cudaMemcpyKind kind) {
  const cudaMemcpy3DParms copy = Flat(to, from, bytes, kind);
  return cudaGraphExecMemcpyNodeSetParams(exec, node, &copy);
}

MCCS_NODE_CALL(cudaGraphAddMemsetNode, cudaMemsetParams,
               cuGraphAddMemsetNode(node, graph, dependencies, count, own, nullptr), MCCS_PLACE)
MCCS_CALL(cudaGraphMemsetNodeGetParams,
          cuGraphMemsetNodeGetParams(node, reinterpret_cast<CUDA_MEMSET_NODE_PARAMS*>(params)),
          cudaGraphNode_t node, cudaMemsetParams* params)

MCCS_NODE_CALL(cudaGraphMemsetNodeSetParams, cudaMemsetParams,
               cuGraphMemsetNodeSetParams(node, own), cudaGraphNode_t node)
MCCS_NODE_CALL(cudaGraphExecMemsetNodeSetParams, cudaMemsetParams,
               cuGraphExecMemsetNodeSetParams(exec, node, own, nullptr), cudaGraphExec_t exec,
               cudaGraphNode_t node)
MCCS_NODE_CALL(cudaGraphAddHostNode, cudaHostNodeParams,
               cuGraphAddHostNode(node, graph, dependencies, count, own), MCCS_PLACE)
MCCS_CALL(cudaGraphHostNodeGetParams,
          cuGraphHostNodeGetParams(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(params)),
          cudaGraphNode_t node, cudaHostNodeParams* params)

MCCS_NODE_CALL(cudaGraphHostNodeSetParams, cudaHostNodeParams, cuGraphHostNodeSetParams(node, own),
               cudaGraphNode_t node)
MCCS_NODE_CALL(cudaGraphExecHostNodeSetParams, cudaHostNodeParams,
               cuGraphExecHostNodeSetParams(exec, node, own), cudaGraphExec_t exec,
               cudaGraphNode_t node)
MCCS_CALL(cudaGraphAddEmptyNode, cuGraphAddEmptyNode(node, graph, dependencies, count), MCCS_PLACE)
MCCS_CALL(cudaGraphAddChildGraphNode,
          cuGraphAddChildGraphNode(node, graph, dependencies, count, child), MCCS_PLACE,
          cudaGraph_t child)
MCCS_CALL(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph(node, child),
          cudaGraphNode_t node, cudaGraph_t* child)
MCCS_CALL(cudaGraphAddEventRecordNode,
          cuGraphAddEventRecordNode(node, graph, dependencies, count, event), MCCS_PLACE,
          cudaEvent_t event)
MCCS_CALL(cudaGraphAddEventWaitNode,
          cuGraphAddEventWaitNode(node, graph, dependencies, count, event), MCCS_PLACE,
          cudaEvent_t event)
MCCS_CALL(cudaGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent(node, event),
          cudaGraphNode_t node, cudaEvent_t* event)
MCCS_CALL(cudaGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent(node, event),
          cudaGraphNode_t node, cudaEvent_t* event)
MCCS_CALL(cudaGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent(node, event),
          cudaGraphNode_t node, cudaEvent_t event)
MCCS_CALL(cudaGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent(node, event),
          cudaGraphNode_t node, cudaEvent_t event)
MCCS_CALL(cudaGraphExecEventRecordNodeSetEvent,
          cuGraphExecEventRecordNodeSetEvent(exec, node, event), cudaGraphExec_t exec,
          cudaGraphNode_t node, cudaEvent_t event)
MCCS_CALL(cudaGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent(exec, node, event),
          cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event)

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies, const cudaGraphEdgeData*,
                             size_t count, cudaGraphNodeParams* params) {
  return WithParams(params, [=](CUgraphNodeParams* own) {
    return cuGraphAddNode(node, graph, dependencies, nullptr, count, own);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  return WithParams(params,
                    [=](CUgraphNodeParams* own) { return cuGraphNodeSetParams(node, own); });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  return WithParams(
      params, [=](CUgraphNodeParams* own) { return cuGraphExecNodeSetParams(exec, node, own); });
}

}  // extern "C"

}  // namespace mccs::emulation
