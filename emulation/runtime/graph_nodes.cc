// Nodes of graphs, with the runtime's parameter structures.

#include <cstring>

#include "emulation/runtime/copy_descriptions.h"
#include "emulation/runtime/entry.h"

using mccs::emulation::CopyOf;
using mccs::emulation::DescribeCopy;
using mccs::emulation::FunctionOf;
using mccs::emulation::Report;
using mccs::emulation::WithContext;

static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));

namespace {

struct Place {
  cudaGraphNode_t* node;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
};

CUDA_KERNEL_NODE_PARAMS Driver(const cudaKernelNodeParams& params) {
  CUDA_KERNEL_NODE_PARAMS call{};
  call.func = FunctionOf(params.func);
  if (call.func == nullptr) call.func = static_cast<CUfunction>(params.func);
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
    const cudaKernelNodeParamsV2& kernel = params.kernel;
    CUfunction function = FunctionOf(kernel.func);
    if (function == nullptr) function = reinterpret_cast<CUfunction>(kernel.func);
    node->kernel = {};
    node->kernel.func = function;
    node->kernel.gridDimX = kernel.gridDim.x;
    node->kernel.gridDimY = kernel.gridDim.y;
    node->kernel.gridDimZ = kernel.gridDim.z;
    node->kernel.blockDimX = kernel.blockDim.x;
    node->kernel.blockDimY = kernel.blockDim.y;
    node->kernel.blockDimZ = kernel.blockDim.z;
    node->kernel.sharedMemBytes = kernel.sharedMemBytes;
    node->kernel.kernelParams = kernel.kernelParams;
    node->kernel.extra = kernel.extra;
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

}  // namespace

#define MCCS_PLACE \
  cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count

extern "C" {

cudaError_t cudaGraphAddKernelNode(MCCS_PLACE, const cudaKernelNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const CUDA_KERNEL_NODE_PARAMS call = Driver(*params);
    return cuGraphAddKernelNode(node, graph, dependencies, count, &call);
  });
}

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

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const CUDA_KERNEL_NODE_PARAMS call = Driver(*params);
    return cuGraphKernelNodeSetParams(node, &call);
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const CUDA_KERNEL_NODE_PARAMS call = Driver(*params);
    return cuGraphExecKernelNodeSetParams(exec, node, &call);
  });
}

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

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const CUDA_MEMCPY3D copy = Driver(*params);
    return cuGraphMemcpyNodeSetParams(node, &copy);
  });
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from,
                                           size_t bytes, cudaMemcpyKind kind) {
  const cudaMemcpy3DParms copy = Flat(to, from, bytes, kind);
  return cudaGraphMemcpyNodeSetParams(node, &copy);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const CUDA_MEMCPY3D copy = Driver(*params);
    return cuGraphExecMemcpyNodeSetParams(exec, node, &copy, nullptr);
  });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes,
                                               cudaMemcpyKind kind) {
  const cudaMemcpy3DParms copy = Flat(to, from, bytes, kind);
  return cudaGraphExecMemcpyNodeSetParams(exec, node, &copy);
}

cudaError_t cudaGraphAddMemsetNode(MCCS_PLACE, const cudaMemsetParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    return cuGraphAddMemsetNode(node, graph, dependencies, count, &Driver(*params), nullptr);
  });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* params) {
  return WithContext([=] {
    return cuGraphMemsetNodeGetParams(node, reinterpret_cast<CUDA_MEMSET_NODE_PARAMS*>(params));
  });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] { return cuGraphMemsetNodeSetParams(node, &Driver(*params)); });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext(
      [=] { return cuGraphExecMemsetNodeSetParams(exec, node, &Driver(*params), nullptr); });
}

cudaError_t cudaGraphAddHostNode(MCCS_PLACE, const cudaHostNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext(
      [=] { return cuGraphAddHostNode(node, graph, dependencies, count, &Driver(*params)); });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* params) {
  return WithContext([=] {
    return cuGraphHostNodeGetParams(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(params));
  });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] { return cuGraphHostNodeSetParams(node, &Driver(*params)); });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] { return cuGraphExecHostNodeSetParams(exec, node, &Driver(*params)); });
}

cudaError_t cudaGraphAddEmptyNode(MCCS_PLACE) {
  return WithContext([=] { return cuGraphAddEmptyNode(node, graph, dependencies, count); });
}

cudaError_t cudaGraphAddChildGraphNode(MCCS_PLACE, cudaGraph_t child) {
  return WithContext(
      [=] { return cuGraphAddChildGraphNode(node, graph, dependencies, count, child); });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child) {
  return WithContext([=] { return cuGraphChildGraphNodeGetGraph(node, child); });
}

cudaError_t cudaGraphAddEventRecordNode(MCCS_PLACE, cudaEvent_t event) {
  return WithContext(
      [=] { return cuGraphAddEventRecordNode(node, graph, dependencies, count, event); });
}

cudaError_t cudaGraphAddEventWaitNode(MCCS_PLACE, cudaEvent_t event) {
  return WithContext(
      [=] { return cuGraphAddEventWaitNode(node, graph, dependencies, count, event); });
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return WithContext([=] { return cuGraphEventRecordNodeGetEvent(node, event); });
}
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return WithContext([=] { return cuGraphEventWaitNodeGetEvent(node, event); });
}
cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return WithContext([=] { return cuGraphEventRecordNodeSetEvent(node, event); });
}
cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return WithContext([=] { return cuGraphEventWaitNodeSetEvent(node, event); });
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return WithContext([=] { return cuGraphExecEventRecordNodeSetEvent(exec, node, event); });
}
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return WithContext([=] { return cuGraphExecEventWaitNodeSetEvent(exec, node, event); });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies, const cudaGraphEdgeData*,
                             size_t count, cudaGraphNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUgraphNodeParams own;
    const CUresult result = Driver(*params, &own);
    if (result != CUDA_SUCCESS) return result;
    return cuGraphAddNode(node, graph, dependencies, nullptr, count, &own);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUgraphNodeParams own;
    const CUresult result = Driver(*params, &own);
    return result == CUDA_SUCCESS ? cuGraphNodeSetParams(node, &own) : result;
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUgraphNodeParams own;
    const CUresult result = Driver(*params, &own);
    return result == CUDA_SUCCESS ? cuGraphExecNodeSetParams(exec, node, &own) : result;
  });
}

}  // extern "C"
