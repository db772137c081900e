// Stream capture: functions that begin, end and query one.

#include <utility>

#include "emulation/driver/graph_actions.h"

namespace mccs::emulation {

// cuda.h maps these names to their newest version; this file defines each version by its own name.
#undef cuStreamBeginCapture
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies

namespace {

bool IsMode(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult Begin(CUstream stream, CUstreamCaptureMode mode) {
  MCCS_ENTER_CONTEXT(session);
  if (!IsMode(mode)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  auto graph = std::make_shared<Graph>(&graphs.nodes);
  const CUresult result = graphs.captures.Begin(found, mode, graph, false, {});
  if (result == CUDA_SUCCESS) graphs.graphs.Insert(graph);
  return result;
}

CUresult BeginInto(CUstream stream, CUgraph handle, const CUgraphNode* dependencies, size_t count,
                   CUstreamCaptureMode mode) {
  MCCS_ENTER_CONTEXT(session);
  if (!IsMode(mode)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const auto graph = graphs.graphs.Find(handle);
  if (found == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<GraphNode*> after;
  if (!FindNodes(graphs, *graph, dependencies, count, &after)) return CUDA_ERROR_INVALID_VALUE;
  return graphs.captures.Begin(found, mode, graph, true, after);
}

CUresult EndStreamCapture(CUstream stream, CUgraph* handle) {
  MCCS_ENTER_CONTEXT(session);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = nullptr;
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  const Capture* capture = graphs.captures.Find(*found);
  const std::shared_ptr<Graph> own =
      capture == nullptr || capture->into_existing_graph ? nullptr : capture->graph;
  std::shared_ptr<Graph> captured;
  const CUresult result = graphs.captures.End(found, &captured);
  if (captured != nullptr) *handle = HandleOf(captured.get());
  // An ended capture that failed leaves no graph.
  const bool over = graphs.captures.Find(*found) == nullptr;
  if (captured == nullptr && over && own != nullptr) graphs.Retire(own, {});
  return result;
}

struct InfoRequest {
  CUstreamCaptureStatus* status = nullptr;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** dependencies = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  size_t* count = nullptr;
};

void Answer(Capture& capture, const Stream& stream, const InfoRequest& request) {
  CapturingStream& own = capture.streams.at(&stream);
  own.edges.assign(own.last.size(), CUgraphEdgeData{});
  static_assert(sizeof(GraphNode*) == sizeof(CUgraphNode));
  if (request.id != nullptr) *request.id = capture.id;
  if (request.graph != nullptr) *request.graph = HandleOf(capture.graph.get());
  if (request.dependencies != nullptr) {
    *request.dependencies = reinterpret_cast<const CUgraphNode*>(own.last.data());
  }
  if (request.edges != nullptr) *request.edges = own.edges.data();
  if (request.count != nullptr) *request.count = own.last.size();
}

CUresult Info(CUstream stream, const InfoRequest& request) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (request.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *request.status = CU_STREAM_CAPTURE_STATUS_NONE;
  GraphState& graphs = session.process->graphs;
  if (!graphs.captures.active()) return CUDA_SUCCESS;
  std::lock_guard lock(graphs.mutex);
  if (graphs.captures.LegacyIsBlocked(*found)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  Capture* const capture = graphs.captures.Find(*found);
  if (capture == nullptr) return CUDA_SUCCESS;
  *request.status =
      capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  if (capture->valid) Answer(*capture, *found, request);
  return CUDA_SUCCESS;
}

CUresult UpdateDependencies(CUstream stream, const CUgraphNode* dependencies, size_t count,
                            unsigned flags) {
  MCCS_ENTER_CONTEXT(session);
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  GraphState& graphs = session.process->graphs;
  std::lock_guard lock(graphs.mutex);
  Capture* const capture = graphs.captures.Find(*found);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*> nodes;
  if (!FindNodes(graphs, *capture->graph, dependencies, count, &nodes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*>& last = capture->streams.at(found.get()).last;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) last.clear();
  AppendMissing(&last, nodes);
  return CUDA_SUCCESS;
}

}  // namespace

MCCS_STREAM_CALL(cuStreamBeginCapture_v2, Begin(stream, mode), CUstream stream,
                 CUstreamCaptureMode mode)
MCCS_STREAM_CALL(cuStreamBeginCapture, Begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 CUstream stream)
MCCS_STREAM_CALL(cuStreamBeginCaptureToGraph, BeginInto(stream, graph, dependencies, count, mode),
                 CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                 const CUgraphEdgeData*, size_t count, CUstreamCaptureMode mode)
MCCS_STREAM_CALL(cuStreamEndCapture, EndStreamCapture(stream, graph), CUstream stream,
                 CUgraph* graph)
MCCS_STREAM_CALL(cuStreamIsCapturing, Info(stream, {.status = status}), CUstream stream,
                 CUstreamCaptureStatus* status)
MCCS_STREAM_CALL(cuStreamGetCaptureInfo, Info(stream, {.status = status, .id = id}),
                 CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id)
MCCS_STREAM_CALL(cuStreamGetCaptureInfo_v2,
                 Info(stream, {status, id, graph, dependencies, nullptr, count}), CUstream stream,
                 CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                 const CUgraphNode** dependencies, size_t* count)
MCCS_STREAM_CALL(cuStreamGetCaptureInfo_v3,
                 Info(stream, {status, id, graph, dependencies, edges, count}), CUstream stream,
                 CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                 const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count)
MCCS_STREAM_CALL(cuStreamUpdateCaptureDependencies,
                 UpdateDependencies(stream, dependencies, count, flags), CUstream stream,
                 CUgraphNode* dependencies, size_t count, unsigned int flags)
MCCS_STREAM_CALL(cuStreamUpdateCaptureDependencies_v2,
                 UpdateDependencies(stream, dependencies, count, flags), CUstream stream,
                 CUgraphNode* dependencies, const CUgraphEdgeData*, size_t count,
                 unsigned int flags)

extern "C" {

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  MCCS_ENTER(session);
  if (mode == nullptr || !IsMode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, CurrentThread().capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace mccs::emulation
