// Graphs: the effects and the order of launches, and object lifetimes.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr size_t kGraphBytes = 4096;

// Ends the capture of `stream` and instantiates the graph.
Outcome Instantiate(cudaStream_t stream, cudaGraphExec_t* exec) {
  cudaGraph_t graph = nullptr;
  PROBE_CALL(cudaStreamEndCapture(stream, &graph));
  PROBE_CALL(cudaGraphInstantiate(exec, graph, 0));
  PROBE_CALL(cudaGraphDestroy(graph));
  return Pass();
}

PROBE_CHECK(graph_launches_repeat,
            "each launch runs all nodes again, with the memory's current contents") {
  PROBE_DEVICE_MEMORY(device, kGraphBytes);
  PROBE_PINNED_MEMORY(from, kGraphBytes);
  PROBE_PINNED_MEMORY(to, kGraphBytes);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  PROBE_CALL(cudaMemcpyAsync(device, from, kGraphBytes, cudaMemcpyHostToDevice, stream));
  PROBE_CALL(cudaMemsetAsync(device, 0, 1, stream));
  PROBE_CALL(cudaMemcpyAsync(to, device, kGraphBytes, cudaMemcpyDeviceToHost, stream));
  cudaGraphExec_t exec = nullptr;
  PROBE_PASSES(Instantiate(stream, &exec));
  for (char round = 1; round < 4; ++round) {
    std::fill_n(static_cast<char*>(from), kGraphBytes, round);
    PROBE_CALL(cudaGraphLaunch(exec, stream));
    PROBE_CALL(cudaStreamSynchronize(stream));
    const auto* seen = static_cast<const char*>(to);
    PROBE_EXPECT(seen[0] == 0 && seen[1] == round && seen[kGraphBytes - 1] == round,
                 "a launch did not copy the current contents");
  }
  PROBE_CALL(cudaGraphExecDestroy(exec));
  return Pass();
}

// A replayed wait-for-equal, followed by a write that resets the word.
PROBE_CHECK(graph_words_in_replays, "writes of words and waits for words are replayed in order") {
  constexpr int kLaunches = 3;
  PROBE_WORDS(words, 24);
  uint64_t* const ready = words;
  uint64_t* const done = words + 8;
  uint64_t* const behind = words + 16;
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(ready), 1, 0));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(done), 1, CU_STREAM_WAIT_VALUE_EQ));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(done), 0, 0));
  cudaGraphExec_t exec = nullptr;
  PROBE_PASSES(Instantiate(stream, &exec));
  for (int i = 0; i < kLaunches; ++i) PROBE_CALL(cudaGraphLaunch(exec, stream));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(behind), 1, 0));
  for (int i = 0; i < kLaunches; ++i) {
    PROBE_EXPECT(WordBecomes(ready, 1), "a launch did not begin");
    PROBE_EXPECT(StaysBusy(stream), "a launch did not wait");
    PROBE_EXPECT(LoadWord(behind) == 0, "the stream continued before its graphs were done");
    StoreWord(ready, 0);
    StoreWord(done, 1);
  }
  PROBE_EXPECT(WordBecomes(behind, 1), "the launches did not finish");
  PROBE_EXPECT(LoadWord(done) == 0, "the last word was not reset");
  return Pass();
}

PROBE_CHECK(graph_branches, "a branch that waits does not block another branch") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(fork);
  PROBE_EVENT(join);
  if (Connections() < 4)
    return Skip("too few hardware queues for two branches besides the streams");
  PROBE_CALL(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cudaEventRecord(fork, first));
  PROBE_CALL(cudaStreamWaitEvent(second, fork, 0));
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words), 1, kGeq));  // satisfied by the other branch
  PROBE_CALL(cuStreamWriteValue64(second, Pointer(words), 1, 0));
  PROBE_CALL(cudaEventRecord(join, second));
  PROBE_CALL(cudaStreamWaitEvent(first, join, 0));
  cudaGraphExec_t exec = nullptr;
  PROBE_PASSES(Instantiate(first, &exec));
  PROBE_CALL(cudaGraphLaunch(exec, first));
  PROBE_EXPECT(Finishes(first), "one branch blocked the other");
  return Pass();
}

PROBE_CHECK(graph_launch_order, "two launches of one executable graph never overlap") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_CALL(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words), 1, kGeq));
  cudaGraphExec_t exec = nullptr;
  PROBE_PASSES(Instantiate(first, &exec));
  PROBE_CALL(cudaGraphLaunch(exec, first));
  PROBE_CALL(cudaGraphLaunch(exec, second));
  PROBE_EXPECT(StaysBusy(second), "a launch overtook the one before it");
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(first) && Finishes(second), "the launches did not finish");
  return Pass();
}

void Note(void* data) { static_cast<std::vector<int>*>(data)->push_back(1); }
void NoteOther(void* data) { static_cast<std::vector<int>*>(data)->push_back(2); }

PROBE_CHECK(graph_without_capture, "only edges order the nodes of a graph; a cycle is rejected") {
  static std::vector<int> order;
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_DEVICE_MEMORY(device, kGraphBytes);
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t late = nullptr;
  cudaGraphNode_t early = nullptr;
  cudaGraphNode_t fill = nullptr;
  const cudaHostNodeParams late_call{NoteOther, &order};
  const cudaHostNodeParams early_call{Note, &order};
  const cudaMemsetParams set{device, 0, 7, 1, kGraphBytes, 1};
  PROBE_CALL(cudaGraphCreate(&graph, 0));
  PROBE_CALL(cudaGraphAddHostNode(&late, graph, nullptr, 0, &late_call));
  PROBE_CALL(cudaGraphAddHostNode(&early, graph, nullptr, 0, &early_call));
  PROBE_CALL(cudaGraphAddMemsetNode(&fill, graph, &early, 1, &set));
  PROBE_CALL(cudaGraphAddDependencies(graph, &fill, &late, nullptr, 1));
  cudaGraphExec_t exec = nullptr;
  PROBE_CALL(cudaGraphInstantiate(&exec, graph, 0));
  PROBE_CALL(cudaGraphLaunch(exec, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_EXPECT((order == std::vector<int>{1, 2}), "a launch ignored an edge that was added later");
  char seen = 0;
  PROBE_CALL(cudaMemcpy(&seen, device, 1, cudaMemcpyDeviceToHost));
  PROBE_EXPECT(seen == 7, "a memset node did not set the memory");
  PROBE_CALL(cudaGraphAddDependencies(graph, &late, &early, nullptr, 1));
  cudaGraphExec_t circle = nullptr;
  PROBE_EXPECT(cudaGraphInstantiate(&circle, graph, 0) != cudaSuccess,
               "a graph with a cycle was instantiated");
  return Pass();
}

PROBE_CHECK(graph_child, "a captured launch becomes a child graph node") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaGraphExec_t inner = nullptr;
  cudaGraphExec_t outer = nullptr;
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words), 1, 0));
  PROBE_PASSES(Instantiate(stream, &inner));
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cudaGraphLaunch(inner, stream));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words + 1), 1, 0));
  PROBE_PASSES(Instantiate(stream, &outer));
  PROBE_CALL(cudaGraphExecDestroy(inner));
  PROBE_CALL(cudaGraphLaunch(outer, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_EXPECT(LoadWord(words) == 1 && LoadWord(words + 1) == 1, "a child did not run");
  return Pass();
}

PROBE_CHECK(graph_external_event, "a launch records events that were captured as external") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_STREAM(other, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  cudaGraphExec_t exec = nullptr;
  PROBE_PASSES(Instantiate(stream, &exec));
  PROBE_CALL(cudaGraphLaunch(exec, stream));
  PROBE_CALL(cudaStreamWaitEvent(other, event, 0));
  PROBE_EXPECT(StaysBusy(other), "an event of a launch was reached before the launch's work");
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(other), "the event of a launch was not recorded");
  return Pass();
}

PROBE_CHECK(graph_update, "an executable graph can be updated from a graph of its shape") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_DEVICE_MEMORY(device, kGraphBytes);
  const auto capture = [&](int value, bool twice, cudaGraph_t* graph) -> Outcome {
    PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    PROBE_CALL(cudaMemsetAsync(device, value, kGraphBytes, stream));
    if (twice) PROBE_CALL(cudaMemsetAsync(device, value, kGraphBytes, stream));
    PROBE_CALL(cudaStreamEndCapture(stream, graph));
    return Pass();
  };
  cudaGraph_t first = nullptr;
  cudaGraph_t second = nullptr;
  cudaGraph_t longer = nullptr;
  PROBE_PASSES(capture(1, false, &first));
  PROBE_PASSES(capture(2, false, &second));
  PROBE_PASSES(capture(3, true, &longer));
  cudaGraphExec_t exec = nullptr;
  cudaGraphExecUpdateResultInfo info;
  PROBE_CALL(cudaGraphInstantiateWithFlags(&exec, first, 0));
  PROBE_CALL(cudaGraphExecUpdate(exec, second, &info));
  PROBE_EXPECT(info.result == cudaGraphExecUpdateSuccess, "an update of the same shape failed");
  PROBE_CALL(cudaGraphLaunch(exec, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  char seen = 0;
  PROBE_CALL(cudaMemcpy(&seen, device, 1, cudaMemcpyDeviceToHost));
  PROBE_EXPECT(seen == 2, "an update had no effect");
  PROBE_EXPECT(cudaGraphExecUpdate(exec, longer, &info) == cudaErrorGraphExecUpdateFailure &&
                   info.result != cudaGraphExecUpdateSuccess,
               "an update accepted a graph of another shape");
  static_cast<void>(cudaGetLastError());
  return Pass();
}

PROBE_CHECK(graph_user_object, "an object of a graph lives until the last launch has ended") {
  PROBE_WORDS(words, 16);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  uint64_t* const destroyed = words + 8;
  cudaUserObject_t object = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  const auto destroy = [](void* word) { StoreWord(static_cast<uint64_t*>(word), 1); };
  PROBE_CALL(cudaUserObjectCreate(&object, destroyed, destroy, 1, cudaUserObjectNoDestructorSync));
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaStreamEndCapture(stream, &graph));
  PROBE_CALL(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  PROBE_CALL(cudaGraphInstantiate(&exec, graph, 0));
  PROBE_CALL(cudaGraphDestroy(graph));
  PROBE_CALL(cudaGraphLaunch(exec, stream));
  PROBE_CALL(cudaGraphExecDestroy(exec));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  PROBE_EXPECT(LoadWord(destroyed) == 0, "an object was destroyed before the last launch ended");
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(stream), "the launch did not finish");
  PROBE_EXPECT(WordBecomes(destroyed, 1), "an object was never destroyed");
  return Pass();
}

// How a captured operation waits in each of its replays: the graph clears the low half of a word,
// then waits for the whole word. A value in the high half releases all later replays.
PROBE_CHECK(graph_half_words, "a graph writes one half of a word and waits for the whole word") {
  constexpr int kLaunches = 3;
  constexpr uint32_t kGroup = 5;
  PROBE_WORDS(words, 24);
  uint64_t* const done = words;
  uint64_t* const ready = words + 8;
  uint64_t* const behind = words + 16;
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(cuStreamWriteValue32(stream, Pointer(done), 0, 0));
  PROBE_CALL(cuStreamWriteValue32(stream, Pointer(ready), kGroup, 0));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(done), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue32(stream, Pointer(behind), kGroup, 0));
  cudaGraphExec_t exec = nullptr;
  PROBE_PASSES(Instantiate(stream, &exec));
  for (int i = 0; i < kLaunches; ++i) PROBE_CALL(cudaGraphLaunch(exec, stream));
  for (int i = 0; i < kLaunches; ++i) {
    PROBE_EXPECT(WordBecomes(ready, kGroup), "a launch did not write its word");
    PROBE_EXPECT(LoadWord(done) == 0, "a launch did not clear the low half first");
    StoreWord(ready, 0);
    std::atomic_ref(*done).fetch_or(1);
  }
  PROBE_EXPECT(Finishes(stream), "setting the lowest bit did not release the launches");
  std::atomic_ref(*done).fetch_or(uint64_t{1} << 62);
  StoreWord(behind, 0);
  PROBE_CALL(cudaGraphLaunch(exec, stream));
  PROBE_EXPECT(Finishes(stream), "the high half did not release a later launch");
  PROBE_EXPECT(LoadWord(done) == uint64_t{1} << 62, "writing one half changed the other");
  PROBE_EXPECT(LoadWord(behind) == kGroup, "the launch did not continue after its wait");
  PROBE_CALL(cudaGraphExecDestroy(exec));
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
