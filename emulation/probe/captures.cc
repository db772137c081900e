// Stream capture: which calls become nodes, how streams join, and which calls are errors.

#include <thread>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr size_t kSmallBytes = 4096;

cudaError_t Begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) {
  return cudaStreamBeginCapture(stream, mode);
}

// Ends a capture that must fail with `expected` and return no graph.
Outcome EndsWith(cudaStream_t stream, cudaError_t expected) {
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  PROBE_EXPECT(error == expected, std::string("cudaStreamEndCapture returned ") +
                                      cudaGetErrorName(error) + ", expected " +
                                      cudaGetErrorName(expected));
  PROBE_EXPECT(graph == nullptr, "a failed capture returned a graph");
  static_cast<void>(cudaGetLastError());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  PROBE_CALL(cudaStreamIsCapturing(stream, &status));
  PROBE_EXPECT(status == cudaStreamCaptureStatusNone, "the stream still captures");
  return Pass();
}

#define PROBE_GIVES(expected, call)                                                            \
  do {                                                                                         \
    const cudaError_t given = static_cast<cudaError_t>(call);                                  \
    static_cast<void>(cudaGetLastError());                                                     \
    if (given != (expected)) {                                                                 \
      return ::mccs::probe::Fail(std::string(#call) + " returned " + cudaGetErrorName(given) + \
                                 ", expected " #expected);                                     \
    }                                                                                          \
  } while (false)

// Ends the capture; its graph must have `count` nodes.
Outcome EndsWithNodes(cudaStream_t stream, size_t count, cudaGraph_t* graph) {
  size_t found = 0;
  PROBE_CALL(cudaStreamEndCapture(stream, graph));
  PROBE_CALL(cudaGraphGetNodes(*graph, nullptr, &found));
  PROBE_EXPECT(found == count, "the graph has " + std::to_string(found) + " nodes, expected " +
                                   std::to_string(count));
  return Pass();
}

PROBE_CHECK(capture_runs_nothing, "captured work becomes nodes and does not run") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(Begin(stream));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words), 1, 0));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words + 1), 1, kGeq));
  PROBE_CALL(cudaMemsetAsync(words + 2, 1, 8, stream));
  PROBE_CALL(cudaLaunchHostFunc(
      stream, [](void* word) { StoreWord(static_cast<uint64_t*>(word), 1); }, words + 3));
  cudaGraph_t graph = nullptr;
  PROBE_PASSES(EndsWithNodes(stream, 4, &graph));
  PROBE_EXPECT(Finishes(stream), "the stream is busy after the capture");
  for (int i = 0; i < 4; ++i) PROBE_EXPECT(LoadWord(words + i) == 0, "captured work ran");
  PROBE_CALL(cudaGraphDestroy(graph));
  return Pass();
}

PROBE_CHECK(capture_info, "id, graph and last nodes of a capture can be read and changed") {
  PROBE_DEVICE_MEMORY(device, kSmallBytes);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaStreamCaptureStatus status{};
  PROBE_CALL(cudaStreamIsCapturing(stream, &status));
  PROBE_EXPECT(status == cudaStreamCaptureStatusNone, "a new stream captures");
  PROBE_CALL(Begin(stream));
  PROBE_CALL(cudaMemsetAsync(device, 0, kSmallBytes, stream));
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
  PROBE_CALL(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &last, nullptr, &count));
  PROBE_EXPECT(status == cudaStreamCaptureStatusActive && id != 0 && graph != nullptr,
               "cudaStreamGetCaptureInfo did not return the capture's state");
  PROBE_EXPECT(count == 1 && last != nullptr,
               "cudaStreamGetCaptureInfo did not return the last node");
  cudaGraphNode_t added = nullptr;
  PROBE_CALL(cudaGraphAddEmptyNode(&added, graph, last, count));
  PROBE_CALL(cudaStreamUpdateCaptureDependencies(stream, &added, nullptr, 1,
                                                 cudaStreamSetCaptureDependencies));
  PROBE_CALL(cudaMemsetAsync(device, 0, kSmallBytes, stream));
  PROBE_CALL(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, nullptr, &count));
  PROBE_EXPECT(count == 1, "the new node is not the only last node");
  cudaGraphNode_t before = nullptr;
  PROBE_CALL(cudaGraphNodeGetDependencies(last[0], &before, nullptr, &count));
  PROBE_EXPECT(count == 1 && before == added,
               "a new node does not depend on the node that was set");
  cudaGraph_t ended = nullptr;
  PROBE_PASSES(EndsWithNodes(stream, 3, &ended));
  PROBE_EXPECT(ended == graph, "the capture returned another graph");
  PROBE_GIVES(cudaErrorIllegalState,
              cudaStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0,
                                                  cudaStreamSetCaptureDependencies));
  return Pass();
}

PROBE_CHECK(capture_fork_and_join, "streams join a capture by its events") {
  PROBE_DEVICE_MEMORY(device, kSmallBytes);
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(fork);
  PROBE_EVENT(join);
  PROBE_CALL(Begin(first));
  PROBE_CALL(cudaMemsetAsync(device, 0, kSmallBytes, first));
  PROBE_CALL(cudaEventRecord(fork, first));
  PROBE_CALL(cudaStreamWaitEvent(second, fork, 0));
  cudaStreamCaptureStatus status{};
  PROBE_CALL(cudaStreamIsCapturing(second, &status));
  PROBE_EXPECT(status == cudaStreamCaptureStatusActive,
               "a stream that waited for a captured event does not capture");
  PROBE_CALL(cudaMemsetAsync(device, 1, kSmallBytes, second));
  PROBE_CALL(cudaMemsetAsync(device, 2, 1, first));
  PROBE_CALL(cudaEventRecord(join, second));
  PROBE_CALL(cudaStreamWaitEvent(first, join, 0));
  PROBE_CALL(cudaMemsetAsync(device, 3, 1, first));
  cudaGraph_t graph = nullptr;
  PROBE_PASSES(EndsWithNodes(first, 4, &graph));
  size_t edges = 0;
  size_t roots = 0;
  PROBE_CALL(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  PROBE_CALL(cudaGraphGetRootNodes(graph, nullptr, &roots));
  PROBE_EXPECT(edges == 4 && roots == 1, "the graph differs from the captured diamond");
  PROBE_CALL(cudaStreamIsCapturing(second, &status));
  PROBE_EXPECT(status == cudaStreamCaptureStatusNone, "a joined stream still captures");
  return Pass();
}

PROBE_CHECK(capture_unjoined, "an unjoined fork invalidates the capture") {
  PROBE_DEVICE_MEMORY(device, kSmallBytes);
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(fork);
  PROBE_CALL(Begin(first));
  PROBE_CALL(cudaEventRecord(fork, first));
  PROBE_CALL(cudaStreamWaitEvent(second, fork, 0));
  PROBE_CALL(cudaMemsetAsync(device, 1, kSmallBytes, second));
  return EndsWith(first, cudaErrorStreamCaptureUnjoined);
}

PROBE_CHECK(capture_unmatched, "a capture ends in its origin stream, once") {
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(fork);
  cudaGraph_t graph = nullptr;
  PROBE_GIVES(cudaErrorIllegalState, cudaStreamEndCapture(first, &graph));
  PROBE_CALL(Begin(first));
  PROBE_GIVES(cudaErrorIllegalState, Begin(first));
  PROBE_CALL(cudaEventRecord(fork, first));
  PROBE_CALL(cudaStreamWaitEvent(second, fork, 0));
  PROBE_GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(second, &graph));
  return EndsWith(first, cudaErrorStreamCaptureInvalidated);
}

PROBE_CHECK(capture_and_synchronize, "waiting for a capturing stream invalidates the capture") {
  PROBE_DEVICE_MEMORY(device, kSmallBytes);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(Begin(stream));
  PROBE_GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  cudaStreamCaptureStatus status{};
  PROBE_CALL(cudaStreamIsCapturing(stream, &status));
  PROBE_EXPECT(status == cudaStreamCaptureStatusInvalidated, "the capture stayed valid");
  PROBE_GIVES(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(device, 1, kSmallBytes, stream));
  PROBE_PASSES(EndsWith(stream, cudaErrorStreamCaptureInvalidated));
  PROBE_CALL(Begin(stream));
  PROBE_GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
  return EndsWith(stream, cudaErrorStreamCaptureInvalidated);
}

PROBE_CHECK(capture_and_legacy_stream,
            "the legacy stream conflicts with captures in blocking streams only") {
  PROBE_DEVICE_MEMORY(device, kSmallBytes);
  PROBE_STREAM(blocking, cudaStreamDefault);
  PROBE_STREAM(apart, cudaStreamNonBlocking);
  PROBE_GIVES(cudaErrorStreamCaptureUnsupported, Begin(nullptr));
  PROBE_CALL(Begin(blocking));
  cudaStreamCaptureStatus status{};
  PROBE_GIVES(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(nullptr, &status));
  PROBE_CALL(cudaStreamIsCapturing(blocking, &status));
  PROBE_EXPECT(status == cudaStreamCaptureStatusActive, "a query invalidated the capture");
  PROBE_GIVES(cudaErrorStreamCaptureImplicit, cudaMemsetAsync(device, 1, kSmallBytes, nullptr));
  PROBE_PASSES(EndsWith(blocking, cudaErrorStreamCaptureInvalidated));
  PROBE_CALL(Begin(apart));
  PROBE_CALL(cudaMemsetAsync(device, 1, kSmallBytes, nullptr));
  cudaGraph_t graph = nullptr;
  return EndsWithNodes(apart, 0, &graph);
}

PROBE_CHECK(capture_isolation,
            "events connect a capture neither to other work nor to other captures") {
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_CALL(cudaEventRecord(event, second));
  PROBE_CALL(Begin(first));
  PROBE_GIVES(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(first, event, 0));
  PROBE_PASSES(EndsWith(first, cudaErrorStreamCaptureInvalidated));
  PROBE_CALL(Begin(first));
  PROBE_CALL(Begin(second));
  PROBE_CALL(cudaEventRecord(event, first));
  PROBE_GIVES(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(second, event, 0));
  return EndsWith(second, cudaErrorStreamCaptureInvalidated);
}

PROBE_CHECK(captured_events, "an event recorded in a capture cannot be queried or waited for") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_CALL(Begin(stream));
  PROBE_CALL(cudaEventRecord(event, stream));
  PROBE_GIVES(cudaErrorCapturedEvent, cudaEventQuery(event));
  PROBE_EXPECT(cudaEventSynchronize(event) != cudaSuccess,
               "cudaEventSynchronize accepted a captured event");
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  static_cast<void>(cudaGetLastError());
  PROBE_CALL(cudaEventRecord(event, stream));  // an ordinary event again
  PROBE_CALL(cudaEventSynchronize(event));
  return Pass();
}

PROBE_CHECK(capture_thread, "only a relaxed capture may end in another thread") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaError_t error = cudaSuccess;
  cudaGraph_t graph = nullptr;
  const auto end = [&] {
    cudaSetDevice(0);
    error = cudaStreamEndCapture(stream, &graph);
  };
  PROBE_CALL(Begin(stream, cudaStreamCaptureModeThreadLocal));
  std::thread(end).join();
  PROBE_EXPECT(error == cudaErrorStreamCaptureWrongThread, "another thread ended the capture");
  static_cast<void>(cudaStreamEndCapture(stream, &graph));
  static_cast<void>(cudaGetLastError());
  PROBE_CALL(Begin(stream, cudaStreamCaptureModeRelaxed));
  std::thread(end).join();
  PROBE_EXPECT(error == cudaSuccess, "another thread cannot end a relaxed capture");
  return Pass();
}

// Returns the result of cudaMalloc in another thread that has chosen `mode`.
cudaError_t AllocateElsewhere(cudaStreamCaptureMode mode) {
  cudaError_t error = cudaSuccess;
  std::thread([&] {
    void* device = nullptr;
    cudaSetDevice(0);
    cudaThreadExchangeStreamCaptureMode(&mode);
    error = cudaMalloc(&device, kSmallBytes);
  }).join();
  return error;
}

PROBE_CHECK(capture_modes, "the capture mode decides which threads may allocate") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  void* device = nullptr;
  PROBE_CALL(Begin(stream, cudaStreamCaptureModeGlobal));
  PROBE_EXPECT(AllocateElsewhere(cudaStreamCaptureModeThreadLocal) == cudaSuccess,
               "cudaMalloc failed in a thread in relaxed mode");
  PROBE_GIVES(cudaErrorStreamCaptureUnsupported, AllocateElsewhere(cudaStreamCaptureModeGlobal));
  PROBE_PASSES(EndsWith(stream, cudaErrorStreamCaptureInvalidated));
  PROBE_CALL(Begin(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_EXPECT(AllocateElsewhere(cudaStreamCaptureModeGlobal) == cudaSuccess,
               "a thread-local capture made cudaMalloc of another thread fail");
  PROBE_GIVES(cudaErrorStreamCaptureUnsupported, cudaMalloc(&device, kSmallBytes));
  PROBE_PASSES(EndsWith(stream, cudaErrorStreamCaptureInvalidated));
  PROBE_CALL(Begin(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  PROBE_CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  PROBE_CALL(cudaMalloc(&device, kSmallBytes));
  PROBE_CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  PROBE_EXPECT(mode == cudaStreamCaptureModeRelaxed, "the mode was not set");
  cudaGraph_t graph = nullptr;
  PROBE_CALL(cudaStreamEndCapture(stream, &graph));
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
