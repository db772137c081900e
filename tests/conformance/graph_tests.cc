// Stream capture: captured calls run again at each replay, without a call into the library.
#include <array>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace graph_tests {

constexpr size_t kCount = 10'000;
constexpr size_t kBytes = kCount * sizeof(int32_t);

// A captured graph, ready to launch. Destroyed before its communicators, as NCCL requires.
class Captured {
 public:
  Captured(Test& test, cudaStream_t stream,
           cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : test_(test), stream_(stream) {
    CUDA_OK(test_, cudaStreamBeginCapture(stream, mode));
    capturing_ = test_.ok();
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    EndCapture();
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }

  void Finish() {
    if (!test_.ok()) return;
    capturing_ = false;
    CUDA_OK(test_, cudaStreamEndCapture(stream_, &graph_));
    CUDA_OK(test_, cudaGraphInstantiate(&executable_, graph_, 0));
  }
  void DestroyTemplate() {
    CUDA_OK(test_, cudaGraphDestroy(graph_));
    graph_ = nullptr;
  }
  bool Launch(cudaStream_t stream) { return CUDA_OK(test_, cudaGraphLaunch(executable_, stream)); }

 private:
  void EndCapture() {
    if (capturing_) cudaStreamEndCapture(stream_, &graph_);
    capturing_ = false;
  }

  Test& test_;
  cudaStream_t stream_;
  bool capturing_ = false;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

CONFORMANCE_TEST(graphs, replays_run_the_work_again) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream);
  buffers.receive.Fill(-1);
  t.Wait(stream);
  Captured graph(t, stream);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  graph.Finish();
  buffers.receive.Expect(-1, "the output of a capture without a replay");
  for (int i = 1; t.ok() && i <= 5; ++i) {
    buffers.send.Fill(i);
    graph.Launch(stream);
    buffers.receive.Expect(i * t.size(), "the sum of a replay");
  }
  Works(t, comm);
}

// The library's setup at its first call must not invalidate a capture.
void TheFirstCallOfACommunicator(Test& t, cudaStreamCaptureMode mode) {
  const auto [comm, stream] = OnNewWorld(t);
  {
    IntBuffers buffers(t, kCount, stream, /*sent=*/4);
    t.Barrier();
    Captured graph(t, stream, mode);
    NCCL_OK(t, SumInto(buffers, comm, stream));
    graph.Finish();
    // In global mode no thread of the process may allocate before all captures have ended.
    t.Barrier();
    graph.Launch(stream);
    buffers.receive.Expect(4 * t.size(), "the sum of a replay");
  }
  t.Destroy(comm);
}

CONFORMANCE_TEST(graphs, replays_and_calls_in_turn) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers captured(t, kCount, stream);
  IntBuffers called(t, kCount, stream);
  captured.send.Fill(2);
  called.send.Fill(3);
  t.Wait(stream);
  Captured graph(t, stream);
  NCCL_OK(t, SumInto(captured, comm, stream));
  graph.Finish();
  for (int i = 0; t.ok() && i < 10; ++i) {
    captured.receive.Fill(-1);
    called.receive.Fill(-1);
    graph.Launch(stream);
    NCCL_OK(t, SumInto(called, comm, stream));
    captured.receive.Expect(2 * t.size(), "the replay's sum");
    called.receive.Expect(3 * t.size(), "the call's sum");
  }
}

CONFORMANCE_TEST(graphs, many_replays_without_a_wait) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer buffer(t, kCount, stream);
  buffer.Fill(t.rank());
  t.Wait(stream);
  Captured graph(t, stream);
  NCCL_OK(t, ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt32, ncclMax, comm, stream));
  graph.Finish();
  for (int i = 0; t.ok() && i < 100; ++i) graph.Launch(stream);
  buffer.Expect(t.size() - 1, "the maximum after all replays");
}

// A copy, two operations of which the second reads the output of the first, and a copy.
CONFORMANCE_TEST(graphs, a_capture_of_several_nodes) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers outside(t, kCount, stream);
  IntBuffers inside(t, kCount, stream);
  outside.send.Fill(1);
  t.Wait(stream);
  Captured graph(t, stream);
  CUDA_OK(t, cudaMemcpyAsync(inside.send.data(), outside.send.data(), kBytes,
                             cudaMemcpyDeviceToDevice, stream));
  NCCL_OK(t, SumInto(inside, comm, stream));
  NCCL_OK(t, ncclAllReduce(inside.receive.data(), inside.send.data(), kCount, ncclInt32, ncclSum,
                           comm, stream));
  CUDA_OK(t, cudaMemcpyAsync(outside.receive.data(), inside.send.data(), kBytes,
                             cudaMemcpyDeviceToDevice, stream));
  graph.Finish();
  for (int i = 1; t.ok() && i <= 3; ++i) {
    outside.send.Fill(i);
    graph.Launch(stream);
    outside.receive.Expect(i * t.size() * t.size(), "the sum of the sums");
  }
}

CONFORMANCE_TEST(graphs, several_communicators_in_one_captured_group) {
  ncclComm_t comms[] = {t.World(), t.NewWorld()};
  cudaStream_t stream = t.NewStream();
  {
    std::vector<IntBuffers> all;
    for (int i = 0; i < 2; ++i) all.emplace_back(t, kCount, stream).send.Fill(i + 1);
    t.Wait(stream);
    Captured graph(t, stream);
    NCCL_OK(t, ncclGroupStart());
    for (int i = 0; i < 2; ++i) NCCL_OK(t, SumInto(all[i], comms[i], stream));
    NCCL_OK(t, ncclGroupEnd());
    graph.Finish();
    graph.Launch(stream);
    for (int i = 0; i < 2; ++i) all[i].receive.Expect((i + 1) * t.size(), "the sum");
  }
  t.Destroy(comms[1]);
}

CONFORMANCE_TEST(graphs, sends_and_receives, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream);
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  buffers.send.Fill(0);
  t.Wait(stream);
  Captured graph(t, stream);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, ncclSend(buffers.send.data(), kCount, ncclInt32, next, comm, stream));
  NCCL_OK(t, ncclRecv(buffers.receive.data(), kCount, ncclInt32, previous, comm, stream));
  NCCL_OK(t, ncclGroupEnd());
  graph.Finish();
  for (int i = 1; t.ok() && i <= 3; ++i) {
    buffers.send.Fill(100 * i + t.rank());
    graph.Launch(stream);
    buffers.receive.Expect(100 * i + previous, "the data that the previous rank sent");
  }
}

// An event extends the capture to a second stream.
CONFORMANCE_TEST(graphs, a_forked_capture) {
  const auto [comm, stream] = OnWorld(t);
  cudaStream_t side = t.NewStream();
  IntBuffers buffers(t, kCount, stream, /*sent=*/6);
  std::array<cudaEvent_t, 2> events{};
  for (cudaEvent_t& event : events) {
    CUDA_OK(t, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  Captured graph(t, stream);
  CUDA_OK(t, cudaEventRecord(events[0], stream));
  CUDA_OK(t, cudaStreamWaitEvent(side, events[0], 0));
  NCCL_OK(t, SumInto(buffers, comm, side));
  CUDA_OK(t, cudaEventRecord(events[1], side));
  CUDA_OK(t, cudaStreamWaitEvent(stream, events[1], 0));
  graph.Finish();
  for (int i = 0; t.ok() && i < 3; ++i) {
    buffers.receive.Fill(-1);
    graph.Launch(stream);
    buffers.receive.Expect(6 * t.size(), "the sum of the forked capture");
  }
  for (cudaEvent_t event : events) CUDA_OK(t, cudaEventDestroy(event));
}

CONFORMANCE_TEST(graphs, two_graphs_in_turn) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers first(t, kCount, stream);
  IntBuffers second(t, kCount, stream);
  first.send.Fill(1);
  second.send.Fill(2);
  t.Wait(stream);
  Captured one(t, stream);
  NCCL_OK(t, SumInto(first, comm, stream));
  one.Finish();
  Captured two(t, stream);
  NCCL_OK(t, SumInto(second, comm, stream));
  two.Finish();
  for (int i = 0; t.ok() && i < 5; ++i) {
    first.receive.Fill(-1);
    second.receive.Fill(-1);
    two.Launch(stream);
    one.Launch(stream);
    first.receive.Expect(t.size(), "the first graph's sum");
    second.receive.Expect(2 * t.size(), "the second graph's sum");
  }
}

CONFORMANCE_TEST(graphs, the_template_may_be_destroyed_first) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  Captured graph(t, stream);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  graph.Finish();
  graph.DestroyTemplate();
  graph.Launch(stream);
  buffers.receive.Expect(t.size(), "the sum of a graph whose template was destroyed");
}

CONFORMANCE_TEST(graphs, a_replay_on_another_stream) {
  const auto [comm, stream] = OnWorld(t);
  cudaStream_t other = t.NewStream();
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  Captured graph(t, stream);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  graph.Finish();
  graph.Launch(other);
  t.Wait(other);
  buffers.receive.Expect(t.size(), "the sum");
}

CONFORMANCE_TEST(graphs, captured_and_uncaptured_streams_do_not_mix, .min_ranks = 2) {
  ncclComm_t comm = t.NewWorld();
  cudaStream_t captured = t.NewStream();
  cudaStream_t plain = t.NewStream();
  IntBuffers buffers(t, kCount, plain);
  t.Wait(plain);
  Captured graph(t, captured);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, SumInto(buffers, comm, captured));
  NCCL_RETURNS(t, ncclInvalidUsage, SumInto(buffers, comm, plain));
  NCCL_RETURNS(t, ncclInvalidUsage, ncclGroupEnd());
}

CONFORMANCE_TEST(graphs, a_world_after_its_graphs) {
  const auto [comm, stream] = OnNewWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  {
    Captured graph(t, stream);
    NCCL_OK(t, SumInto(buffers, comm, stream));
    graph.Finish();
    graph.Launch(stream);
    buffers.receive.Expect(t.size(), "the sum");
  }
  Works(t, comm);
  t.Destroy(comm);
}

CONFORMANCE_TEST(graphs, the_first_call_in_thread_local_mode) {
  TheFirstCallOfACommunicator(t, cudaStreamCaptureModeThreadLocal);
}

CONFORMANCE_TEST(graphs, the_first_call_in_relaxed_mode) {
  TheFirstCallOfACommunicator(t, cudaStreamCaptureModeRelaxed);
}

CONFORMANCE_TEST(graphs, the_first_call_in_global_mode) {
  TheFirstCallOfACommunicator(t, cudaStreamCaptureModeGlobal);
}

}  // namespace graph_tests
}  // namespace conformance
