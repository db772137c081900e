// Stream order: legacy default stream, per-thread default streams, host functions.

#include <cstring>
#include <mutex>
#include <thread>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

// Number of queues with which a check of two or three streams can distinguish order from a shared
// queue.
constexpr int kEnoughConnections = 8;

Outcome SharesQueues() {
  return Skip("with so few connections every stream waits for every other one");
}

// Checks that the work of `second` waits for earlier work of `first`.
Outcome InOrder(cudaStream_t first, cudaStream_t second, const char* overtook) {
  PROBE_WORDS(words, 16);
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue64(second, Pointer(words + 8), 1, 0));
  PROBE_EXPECT(!WordBecomes(words + 8, 1, 30), overtook);
  StoreWord(words, 1);
  PROBE_EXPECT(WordBecomes(words + 8, 1), "the later stream was not released");
  return Pass();
}

PROBE_CHECK(legacy_waits_for_blocking,
            "the legacy stream waits for earlier work of blocking streams") {
  PROBE_STREAM(blocking, cudaStreamDefault);
  return InOrder(blocking, cudaStreamLegacy, "the legacy stream overtook a blocking one");
}

PROBE_CHECK(blocking_waits_for_legacy,
            "blocking streams wait for earlier work of the legacy stream") {
  PROBE_STREAM(blocking, cudaStreamDefault);
  return InOrder(nullptr, blocking, "a blocking stream overtook the legacy one");
}

PROBE_CHECK(non_blocking_ignores_legacy,
            "non-blocking streams and the legacy stream ignore each other") {
  PROBE_WORDS(words, 16);
  if (Connections() < kEnoughConnections) return SharesQueues();
  PROBE_STREAM(free_stream, cudaStreamNonBlocking);
  PROBE_CALL(cuStreamWaitValue64(nullptr, Pointer(words), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue64(free_stream, Pointer(words + 8), 1, 0));
  const bool written = WordBecomes(words + 8, 1, 1000);
  StoreWord(words, 1);
  PROBE_EXPECT(written, "a non-blocking stream waited for the legacy one");
  PROBE_CALL(cudaDeviceSynchronize());
  return Pass();
}

PROBE_CHECK(legacy_synchronize, "cudaStreamSynchronize(0) covers blocking streams") {
  PROBE_WORDS(words, 16);
  PROBE_STREAM(blocking, cudaStreamDefault);
  PROBE_CALL(cuStreamWaitValue64(blocking, Pointer(words), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue64(blocking, Pointer(words + 8), 1, 0));
  std::thread releaser = StoreLater(words, 1, 30);
  const cudaError_t error = cudaStreamSynchronize(nullptr);
  const bool written = LoadWord(words + 8) == 1;
  releaser.join();
  PROBE_CALL(error);
  PROBE_EXPECT(written, "cudaStreamSynchronize(0) did not wait for a blocking stream");
  return Pass();
}

PROBE_CHECK(per_thread_streams, "each thread has its own default stream, which is a blocking one") {
  PROBE_WORDS(words, 24);
  if (Connections() < kEnoughConnections) return SharesQueues();
  std::optional<std::string> problem;
  std::thread other([&] {
    problem = Problem("cuStreamWaitValue64",
                      cudaSetDevice(0) == cudaSuccess
                          ? cuStreamWaitValue64(cudaStreamPerThread, Pointer(words), 1, kGeq)
                          : CUDA_ERROR_UNKNOWN);
  });
  other.join();
  PROBE_EXPECT(!problem, *problem);
  PROBE_CALL(cuStreamWriteValue64(cudaStreamPerThread, Pointer(words + 8), 1, 0));
  const bool own_went_on = WordBecomes(words + 8, 1, 1000);
  PROBE_CALL(cuStreamWriteValue64(cudaStreamLegacy, Pointer(words + 16), 1, 0));
  const bool legacy_waited = !WordBecomes(words + 16, 1, 30);
  StoreWord(words, 1);
  PROBE_EXPECT(own_went_on, "the default stream of a thread waited for another thread's");
  PROBE_EXPECT(legacy_waited, "the legacy stream did not wait for a thread's default stream");
  PROBE_EXPECT(WordBecomes(words + 16, 1), "the legacy stream was not released");
  return Pass();
}

PROBE_CHECK(calls_return_before_work,
            "copies, sets and host functions are asynchronous to the host") {
  constexpr size_t kBytes = 1 << 20;
  PROBE_WORDS(words, 8);
  PROBE_DEVICE_MEMORY(device, kBytes);
  PROBE_PINNED_MEMORY(host, kBytes);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  static int called = 0;
  memset(host, 0, kBytes);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaMemsetAsync(device, 9, kBytes, stream));
  PROBE_CALL(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, stream));
  PROBE_CALL(cudaLaunchHostFunc(
      stream, [](void*) { called = 1; }, nullptr));
  PROBE_EXPECT(StaysBusy(stream), "the stream did not wait");
  PROBE_EXPECT(*static_cast<unsigned char*>(host) == 0 && called == 0, "work overtook a wait");
  StoreWord(words, 1);
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_EXPECT(*static_cast<unsigned char*>(host) == 9 && called == 1, "some work did not run");
  return Pass();
}

PROBE_CHECK(host_function_order, "host functions of a stream run in order") {
  struct Log {
    std::vector<int> entries;
    std::mutex mutex;
  };
  static Log log;
  constexpr int kFunctions = 100;
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  for (intptr_t i = 0; i < kFunctions; ++i) {
    PROBE_CALL(cudaLaunchHostFunc(
        stream,
        [](void* number) {
          std::lock_guard lock(log.mutex);
          log.entries.push_back(static_cast<int>(reinterpret_cast<intptr_t>(number)));
        },
        reinterpret_cast<void*>(i)));
  }
  PROBE_CALL(cudaStreamSynchronize(stream));
  std::lock_guard lock(log.mutex);
  PROBE_EXPECT(log.entries.size() == kFunctions, "some host functions did not run");
  for (int i = 0; i < kFunctions; ++i) {
    PROBE_EXPECT(log.entries[static_cast<size_t>(i)] == i, "host functions ran out of order");
  }
  return Pass();
}

PROBE_CHECK(host_function_may_block, "a blocked host function blocks only its own stream") {
  static uint64_t* words = nullptr;
  words = PinnedWords(16);
  PROBE_EXPECT(words != nullptr, "cannot allocate pinned memory");
  if (Connections() < kEnoughConnections) return SharesQueues();
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_CALL(cudaLaunchHostFunc(
      first,
      [](void*) {
        while (LoadWord(words) == 0) std::this_thread::yield();
      },
      nullptr));
  void* device = nullptr;
  const bool asked = !StaysBusy(first);
  PROBE_EXPECT(!asked, "a query ran a host function");
  PROBE_CALL(cudaMallocAsync(&device, 4096, second));
  PROBE_CALL(cudaMemsetAsync(device, 1, 4096, second));
  PROBE_CALL(cuStreamWriteValue64(second, Pointer(words + 8), 1, 0));
  const bool other_went_on = WordBecomes(words + 8, 1);
  StoreWord(words, 1);
  PROBE_EXPECT(other_went_on, "a blocked host function blocked another stream");
  PROBE_EXPECT(Finishes(first), "the stream of the host function did not finish");
  return Pass();
}

PROBE_CHECK(destroy_keeps_work, "a destroyed stream still runs its work") {
  PROBE_WORDS(words, 16);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cuStreamWriteValue64(stream, Pointer(words + 8), 1, 0));
  PROBE_CALL(cudaStreamDestroy(stream));
  StoreWord(words, 1);
  PROBE_EXPECT(WordBecomes(words + 8, 1), "the work of a destroyed stream was dropped");
  return Pass();
}

PROBE_CHECK(query_sets_last_error,
            "cudaStreamQuery's NotReady is the thread's last error until it is read") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  const cudaError_t busy = cudaStreamQuery(stream);
  const cudaError_t peeked = cudaPeekAtLastError();
  const cudaError_t last = cudaGetLastError();
  const cudaError_t cleared = cudaGetLastError();
  StoreWord(words, 1);
  PROBE_EXPECT(busy == cudaErrorNotReady,
               "cudaStreamQuery of a waiting stream did not return cudaErrorNotReady");
  PROBE_EXPECT(peeked == last && cleared == cudaSuccess,
               "cudaPeekAtLastError cleared the error, or cudaGetLastError kept it");
  return Finishes(stream) ? Pass() : Fail("the stream was not released");
}

}  // namespace
}  // namespace mccs::probe
