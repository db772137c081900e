// Streams: a call does not wait for the work, the work runs in stream order, and every kind of
// stream works.
#include <vector>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace stream_tests {

constexpr size_t kCount = 20'000;
constexpr size_t kBytes = kCount * sizeof(int32_t);

void AllReduceOn(Test& t, cudaStream_t stream) {
  ncclComm_t comm = t.World();
  IntBuffers buffers(t, kCount, stream);
  buffers.send.Fill(t.rank() + 1);
  NCCL_OK(t, SumInto(buffers, comm, stream));
  buffers.receive.Expect(SumOfRanks(t.size()), "the sum");
}

CONFORMANCE_TEST(streams, the_legacy_stream) {
  AllReduceOn(t, nullptr);
  AllReduceOn(t, cudaStreamLegacy);
}

CONFORMANCE_TEST(streams, the_per_thread_stream) { AllReduceOn(t, cudaStreamPerThread); }

CONFORMANCE_TEST(streams, a_blocking_stream) { AllReduceOn(t, t.NewStream(cudaStreamDefault)); }

CONFORMANCE_TEST(streams, the_call_does_not_wait_for_the_work) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  Gate* gate = t.NewGate(stream);
  // If the call waited, it would wait forever: the gate opens after it.
  NCCL_OK(t, SumInto(buffers, comm, stream));
  t.ExpectBusy(stream, "the work before the operation is blocked");
  gate->Open();
  buffers.receive.Expect(t.size(), "the sum");
}

CONFORMANCE_TEST(streams, the_call_does_not_wait_for_other_ranks, .min_ranks = 2) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, kCount, stream, /*sent=*/1);
  const auto call = [&] { NCCL_OK(t, SumInto(buffers, comm, stream)); };
  if (!t.is_root()) {
    call();
    t.ExpectBusy(stream, "rank 0 has not called yet");
  }
  t.Barrier();
  if (t.is_root()) call();
  buffers.receive.Expect(t.size(), "the sum");
}

// Work between two copies, all in stream order.
CONFORMANCE_TEST(streams, work_keeps_the_order_of_its_stream) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffer source(t, kCount, stream);
  IntBuffers buffers(t, kCount, stream);
  IntBuffer copy(t, kCount, stream);
  source.Fill(5);
  buffers.send.Fill(-1);
  t.Wait(stream);
  Gate* gate = t.NewGate(stream);
  CUDA_OK(t, cudaMemcpyAsync(buffers.send.data(), source.data(), kBytes, cudaMemcpyDeviceToDevice,
                             stream));
  NCCL_OK(t, SumInto(buffers, comm, stream));
  CUDA_OK(t, cudaMemcpyAsync(copy.data(), buffers.receive.data(), kBytes, cudaMemcpyDeviceToDevice,
                             stream));
  CUDA_OK(t, cudaMemsetAsync(buffers.receive.data(), 0, kBytes, stream));
  gate->Open();
  copy.Expect(5 * t.size(), "the copy of the sum");
  buffers.receive.Expect(0, "the output that was cleared afterwards");
}

CONFORMANCE_TEST(streams, events_cover_the_work) {
  const auto [comm, stream] = OnWorld(t);
  cudaStream_t after = t.NewStream();
  IntBuffers buffers(t, kCount, stream);
  IntBuffer copy(t, kCount, after);
  buffers.send.Fill(3);
  cudaEvent_t done = nullptr;
  CUDA_OK(t, cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  NCCL_OK(t, SumInto(buffers, comm, stream));
  CUDA_OK(t, cudaEventRecord(done, stream));
  CUDA_OK(t, cudaStreamWaitEvent(after, done, 0));
  CUDA_OK(t, cudaMemcpyAsync(copy.data(), buffers.receive.data(), kBytes, cudaMemcpyDeviceToDevice,
                             after));
  copy.Expect(3 * t.size(), "the copy after the event");
  CUDA_OK(t, cudaEventDestroy(done));
}

CONFORMANCE_TEST(streams, a_stream_may_be_destroyed_after_its_work) {
  ncclComm_t comm = t.World();
  cudaStream_t filling = t.NewStream();
  IntBuffers buffers(t, kCount, filling, /*sent=*/1);
  cudaStream_t brief = nullptr;
  CUDA_OK(t, cudaStreamCreateWithFlags(&brief, cudaStreamNonBlocking));
  NCCL_OK(t, SumInto(buffers, comm, brief));
  cudaEvent_t done = nullptr;
  CUDA_OK(t, cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CUDA_OK(t, cudaEventRecord(done, brief));
  CUDA_OK(t, cudaStreamDestroy(brief));
  t.Until([&] { return cudaEventQuery(done) == cudaSuccess; }, "the destroyed stream's work");
  buffers.receive.Expect(t.size(), "the sum");
  CUDA_OK(t, cudaEventDestroy(done));
}

CONFORMANCE_TEST(streams, a_stream_of_its_own_for_each_operation) {
  constexpr int kStreams = 24;
  ncclComm_t comm = t.World();
  std::vector<IntBuffers> all;
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(t.NewStream());
    all.emplace_back(t, 100, streams.back()).send.Fill(i);
  }
  for (int i = 0; i < kStreams; ++i) {
    NCCL_OK(t, ncclAllReduce(all[i].send.data(), all[i].receive.data(), 100, ncclInt32, ncclSum,
                             comm, streams[i]));
  }
  for (int i = 0; i < kStreams; ++i) all[i].receive.Expect(i * t.size(), "the sum");
}

// Ranks post to two communicators in opposite orders, on two streams.
CONFORMANCE_TEST(streams, two_communicators_in_opposite_orders, .min_ranks = 2) {
  ncclComm_t comms[] = {t.World(), t.NewWorld()};
  cudaStream_t streams[] = {t.NewStream(), t.NewStream()};
  std::vector<IntBuffers> all;
  for (int i = 0; i < 2; ++i) all.emplace_back(t, kCount, streams[i]);
  for (int round = 1; t.ok() && round <= 20; ++round) {
    for (int i : {t.rank() % 2, 1 - t.rank() % 2}) {
      all[i].send.Fill(round + i);
      NCCL_OK(t, ncclAllReduce(all[i].send.data(), all[i].receive.data(), kCount, ncclInt32,
                               ncclSum, comms[i], streams[i]));
    }
    for (int i = 0; i < 2; ++i) all[i].receive.Expect((round + i) * t.size(), "the sum");
  }
  t.Destroy(comms[1]);
}

// If a GPU has fewer queues than the program has streams, some streams share one. A wait in one of
// these must not block another.
CONFORMANCE_TEST(streams, more_streams_than_hardware_queues, .min_ranks = 2) {
  constexpr int kStreams = 33;  // CUDA_DEVICE_MAX_CONNECTIONS goes up to 32
  ncclComm_t comms[] = {t.World(), t.NewWorld()};
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(t.NewStream());
  for (int other = 1; t.ok() && other < kStreams; ++other) {
    std::vector<IntBuffers> all;
    all.emplace_back(t, kCount, streams[0]);
    all.emplace_back(t, kCount, streams[other]);
    for (int i : {t.rank() % 2, 1 - t.rank() % 2}) {
      all[i].send.Fill(other + i);
      NCCL_OK(t, ncclAllReduce(all[i].send.data(), all[i].receive.data(), kCount, ncclInt32,
                               ncclSum, comms[i], streams[i == 0 ? 0 : other]));
    }
    for (int i = 0; i < 2; ++i) all[i].receive.Expect((other + i) * t.size(), "the sum");
  }
  t.Destroy(comms[1]);
}

// More than any queue between the library and the device can hold.
CONFORMANCE_TEST(streams, thousands_of_operations) {
  constexpr int kOperations = 3000;
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, 16, stream);
  buffers.send.Fill(t.rank());
  for (int i = 0; t.ok() && i < kOperations; ++i) {
    NCCL_OK(t, ncclAllReduce(buffers.send.data(), buffers.receive.data(), 16, ncclInt32, ncclMax,
                             comm, stream));
  }
  buffers.receive.Expect(t.size() - 1, "the maximum");
}

}  // namespace stream_tests
}  // namespace conformance
