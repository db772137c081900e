// Kernels that poll words, as nodes of graphs.

#include <thread>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

constexpr uint64_t kReplays = 1000;
constexpr int kReplayLimitMs = 5000;

// Commands the replays one by one. Returns the first number without an answer, or 0.
uint64_t Command(uint64_t* command, const uint64_t* done) {
  for (uint64_t number = 1; number <= kReplays; ++number) {
    StoreWord(command, number);
    if (!SpinUntil(done, number, kReplayLimitMs)) {
      StoreWord(command, kStop);
      return number;
    }
  }
  return 0;
}

PROBE_CHECK(graph_kernel_polls_words,
            "a kernel that polls words is replayed by a graph 1,000 times, one after the other") {
  PROBE_WORDS(words, 2 * kWordStride);
  uint64_t* const command = words;
  uint64_t* const done = words + kWordStride;
  PROBE_DEVICE_MEMORY(replays, sizeof(uint64_t));
  PROBE_CALL(cudaMemset(replays, 0, sizeof(uint64_t)));
  PROBE_CALL(cudaDeviceSynchronize());
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  CUfunction loaded = nullptr;
  PROBE_CALL(FindKernel(kStep.name(), &loaded));  // not during the capture
  PROBE_CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  PROBE_CALL(kStep.Launch(stream, {}, static_cast<uint64_t*>(replays), command, done));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  PROBE_CALL(cudaStreamEndCapture(stream, &graph));
  PROBE_CALL(cudaGraphInstantiate(&exec, graph, 0));
  const Stopwatch stopwatch;
  uint64_t unanswered = 0;
  std::thread commander([&] { unanswered = Command(command, done); });
  cudaError_t launched = cudaSuccess;
  for (uint64_t i = 0; i < kReplays && launched == cudaSuccess; ++i) {
    launched = cudaGraphLaunch(exec, stream);
  }
  commander.join();
  const double ms = stopwatch.ms();
  PROBE_CALL(launched);
  PROBE_EXPECT(unanswered == 0, "a replay did not see its command");
  PROBE_EXPECT(Finishes(stream), "the replays did not end");
  uint64_t count = 0;
  PROBE_CALL(cudaMemcpy(&count, replays, sizeof(count), cudaMemcpyDeviceToHost));
  PROBE_EXPECT(count == kReplays && LoadWord(done) == kReplays,
               "replays ran at the same time, or were lost");
  return Pass(Text("%.1f µs per replay with its command and answer",
                   ms * 1e3 / static_cast<double>(kReplays)));
}

}  // namespace
}  // namespace mccs::probe
