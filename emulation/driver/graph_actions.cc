#include "emulation/driver/graph_actions.h"

#include <cstring>
#include <optional>
#include <utility>

#include "emulation/driver/work_requests.h"

namespace mccs::emulation {
namespace {

// CUDA has several versions of the same parameters; the later ones end with a context.
template <typename To, typename From>
To FirstForm(const From& from) {
  static_assert(sizeof(To) <= sizeof(From) && std::is_trivially_copyable_v<From>);
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// Sets the GPU on which a node of this context runs; null means the caller's.
CUresult ChooseGpu(const CallContext& session, CUcontext context, NodeRequest* request) {
  if (context == nullptr) return CUDA_SUCCESS;
  const int gpu = session.GpuOf(context);
  if (gpu < 0) return CUDA_ERROR_INVALID_CONTEXT;
  request->gpu = gpu;
  return CUDA_SUCCESS;
}

template <typename Action>
CUresult MakeEventAction(const CallContext& session, CUevent handle, NodeRequest* request) {
  std::shared_ptr<Event> event = session.process->events.Find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  request->gpu = event->gpu;
  request->action = Action{std::move(event)};
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MakeAction(const CallContext& session, const CUDA_KERNEL_NODE_PARAMS& params,
                    NodeRequest* request) {
  CUfunction function = params.func;
  if (function == nullptr) {
    const CUresult result = ChooseGpu(session, params.ctx, request);
    if (result != CUDA_SUCCESS) return result;
    function = reinterpret_cast<CUfunction>(params.kern);
  }
  const MccsEmulatedLaunch launch{{params.gridDimX, params.gridDimY, params.gridDimZ},
                                  {params.blockDimX, params.blockDimY, params.blockDimZ},
                                  params.sharedMemBytes,
                                  0};
  CallContext place = session;
  place.gpu = request->gpu;
  std::optional<KernelCall> call;
  const CUresult result =
      PrepareCall(place, function, launch, params.kernelParams, params.extra, &call);
  if (result == CUDA_SUCCESS) request->action = std::move(*call);
  return result;
}

CUresult MakeAction(const CallContext& session, const CUDA_MEMCPY3D& params, NodeRequest* request) {
  std::optional<CopyRequest> copy = RequestOf(params);
  if (!copy) return CUDA_ERROR_NOT_SUPPORTED;
  if (copy->rows.row_bytes == 0 || copy->rows.rows == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckCopy(session, *copy);
  if (result == CUDA_SUCCESS) request->action = std::move(copy->rows);
  return result;
}

CUresult MakeAction(const CallContext& session, const CUDA_MEMSET_NODE_PARAMS& params,
                    NodeRequest* request) {
  const unsigned element = params.elementSize;
  if (element != 1 && element != 2 && element != 4) return CUDA_ERROR_INVALID_VALUE;
  if (params.width == 0 || params.height == 0) return CUDA_ERROR_INVALID_VALUE;
  const FillRows fill{.to = reinterpret_cast<void*>(params.dst),
                      .value = params.value,
                      .element_bytes = element,
                      .row_elements = params.width,
                      .rows = params.height,
                      .pitch = params.height == 1 ? 0 : params.pitch};
  const CUresult result = CheckFill(session, fill);
  if (result == CUDA_SUCCESS) request->action = fill;
  return result;
}

CUresult MakeAction(const CallContext&, const CUDA_HOST_NODE_PARAMS& params, NodeRequest* request) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  request->action = HostCall{params.fn, params.userData};
  return CUDA_SUCCESS;
}

CUresult MakeAction(const CallContext& session, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params,
                    NodeRequest* request) {
  CUresult result = ChooseGpu(session, params.ctx, request);
  if (result != CUDA_SUCCESS) return result;
  WordOperations words;
  result = MakeWordOperations(session, params.count, params.paramArray, params.flags, &words);
  if (result == CUDA_SUCCESS) request->action = std::move(words);
  return result;
}

CUresult MakeChild(const CallContext& session, CUgraph handle, NodeRequest* request) {
  const std::shared_ptr<Graph> graph = session.process->graphs.graphs.Find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  request->action = ChildGraph{Graph::AsChild(graph->Clone())};
  return CUDA_SUCCESS;
}

CUresult MakeEventRecord(const CallContext& session, CUevent event, NodeRequest* request) {
  return MakeEventAction<RecordEvent>(session, event, request);
}

CUresult MakeEventWait(const CallContext& session, CUevent event, NodeRequest* request) {
  return MakeEventAction<AwaitEvent>(session, event, request);
}

CUresult MakeAction(const CallContext& session, const CUgraphNodeParams& params,
                    NodeRequest* request) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return MakeAction(session, FirstForm<CUDA_KERNEL_NODE_PARAMS>(params.kernel), request);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const CUresult result = ChooseGpu(session, params.memcpy.copyCtx, request);
      if (result != CUDA_SUCCESS) return result;
      return MakeAction(session, params.memcpy.copyParams, request);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUresult result = ChooseGpu(session, params.memset.ctx, request);
      if (result != CUDA_SUCCESS) return result;
      return MakeAction(session, FirstForm<CUDA_MEMSET_NODE_PARAMS>(params.memset), request);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return MakeAction(session, FirstForm<CUDA_HOST_NODE_PARAMS>(params.host), request);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return MakeAction(session, FirstForm<CUDA_BATCH_MEM_OP_NODE_PARAMS>(params.memOp), request);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return MakeChild(session, params.graph.graph, request);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return MakeEventRecord(session, params.eventRecord.event, request);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return MakeEventWait(session, params.eventWait.event, request);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

void Describe(const KernelCall& call, CUDA_KERNEL_NODE_PARAMS* params) {
  const MccsEmulatedLaunch& launch = call.launch.launch();
  *params = {};
  params->func = reinterpret_cast<CUfunction>(const_cast<NamedKernel*>(call.kernel));
  params->gridDimX = launch.grid[0];
  params->gridDimY = launch.grid[1];
  params->gridDimZ = launch.grid[2];
  params->blockDimX = launch.block[0];
  params->blockDimY = launch.block[1];
  params->blockDimZ = launch.block[2];
  params->sharedMemBytes = launch.shared_bytes;
  params->kernelParams = call.launch.arguments();
}

void Describe(const CopyRows& copy, CUDA_MEMCPY3D* params) {
  *params = {};
  params->srcMemoryType = params->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  params->srcDevice = reinterpret_cast<CUdeviceptr>(copy.from);
  params->dstDevice = reinterpret_cast<CUdeviceptr>(copy.to);
  params->srcPitch = copy.from_pitch;
  params->dstPitch = copy.to_pitch;
  params->WidthInBytes = copy.row_bytes;
  params->Height = copy.rows;
  params->Depth = 1;
}

void Describe(const FillRows& fill, CUDA_MEMSET_NODE_PARAMS* params) {
  params->dst = reinterpret_cast<CUdeviceptr>(fill.to);
  params->pitch = fill.pitch;
  params->value = fill.value;
  params->elementSize = fill.element_bytes;
  params->width = fill.row_elements;
  params->height = fill.rows;
}

void Describe(const HostCall& call, CUDA_HOST_NODE_PARAMS* params) {
  params->fn = call.function;
  params->userData = call.data;
}

void Describe(const WordOperations& words, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  *params = {};
  params->count = static_cast<unsigned>(words.requested.size());
  params->paramArray = const_cast<CUstreamBatchMemOpParams*>(words.requested.data());
}

}  // namespace mccs::emulation
