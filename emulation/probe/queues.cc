// Hardware queues: which streams a pending wait blocks. A GPU maps its streams to
// CUDA_DEVICE_MAX_CONNECTIONS queues (default 8); streams in the same queue can block each other.

#include <algorithm>
#include <cstring>
#include <string>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr int kForty = 40;
// Those of the working stream and of the legacy default stream.
constexpr int kOtherQueues = 2;
// Time limit for unblocked work on a busy machine, and observation time if work is expected to be
// blocked.
constexpr int kFreeMs = 5000;
constexpr int kHeldMs = 30;

struct WaitingStreams {
  std::vector<cudaStream_t> streams;
  uint64_t* words = nullptr;

  uint64_t* word(size_t i) const { return words + i * kWordStride; }
  void Release() const {
    for (size_t i = 0; i < streams.size(); ++i) StoreWord(word(i), 1);
  }
};

Outcome Block(int count, WaitingStreams* waiting) {
  waiting->words = PinnedWords(static_cast<size_t>(count) * kWordStride);
  PROBE_EXPECT(waiting->words != nullptr, "cannot allocate pinned memory");
  for (int i = 0; i < count; ++i) {
    cudaStream_t stream = nullptr;
    PROBE_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    waiting->streams.push_back(stream);
    PROBE_CALL(
        cuStreamWaitValue64(stream, Pointer(waiting->word(static_cast<size_t>(i))), 1, kGeq));
  }
  return Pass();
}

// Runs a stream that copies and writes a word while `count` streams wait. `*held`: it did not
// finish before they were released.
Outcome RunWorkBesideWaits(int count, bool* held) {
  WaitingStreams waiting;
  PROBE_PASSES(Block(count, &waiting));
  PROBE_WORDS(word, kWordStride);
  PROBE_STREAM(working, cudaStreamNonBlocking);
  PROBE_DEVICE_MEMORY(device, 1 << 20);
  PROBE_CALL(cudaMemsetAsync(device, 1, 1 << 20, working));
  PROBE_CALL(cuStreamWriteValue64(working, Pointer(word), 1, 0));
  *held = !Finishes(working, Connections() < count + kOtherQueues ? kHeldMs : kFreeMs);
  waiting.Release();
  PROBE_EXPECT(Finishes(working),
               "the working stream did not finish after all waits were released");
  for (cudaStream_t stream : waiting.streams) {
    PROBE_EXPECT(Finishes(stream), "a stream did not finish after its wait was released");
  }
  return Pass();
}

PROBE_CHECK(forty_waits_beside_work, "forty waiting streams do not block a working one") {
  bool held = false;
  PROBE_PASSES(RunWorkBesideWaits(kForty, &held));
  if (!held) return Pass();
  const int connections = Connections();
  PROBE_EXPECT(connections < kForty + kOtherQueues,
               "waits in other queues blocked a stream with a queue of its own");
  return Skip("blocked by the waits, as expected with " + std::to_string(connections) +
              " connections for 41 streams; all finished after the release");
}

PROBE_CHECK(few_waits_beside_work, "waits do not block streams in other queues") {
  const int count = Connections() - kOtherQueues - 1;
  if (count < 1) return Skip("too few connections for a concurrent wait and work");
  bool held = false;
  PROBE_PASSES(RunWorkBesideWaits(std::min(count, kForty), &held));
  PROBE_EXPECT(!held, "a stream was blocked although there are more connections than streams");
  return Pass();
}

PROBE_CHECK(two_waits, "waits of two streams do not block each other") {
  if (Connections() <= kOtherQueues) return Skip("the two streams share a queue");
  WaitingStreams waiting;
  PROBE_PASSES(Block(2, &waiting));
  StoreWord(waiting.word(1), 1);
  PROBE_EXPECT(Finishes(waiting.streams[1]), "the second stream waits for the first one's word");
  PROBE_EXPECT(StaysBusy(waiting.streams[0]), "the first stream did not wait for its word");
  waiting.Release();
  PROBE_EXPECT(Finishes(waiting.streams[0]), "the first stream was not released");
  return Pass();
}

// The library's own copies are on streams of the greatest priority, because the program's streams
// may wait for them (shim/cuda/own_stream.h). NVIDIA documents no queues per priority.
PROBE_CHECK(greatest_priority_beside_waits,
            "waits of streams of the default priority do not block one of the greatest priority, "
            "however few connections there are") {
  constexpr size_t kBytes = 1 << 20;
  WaitingStreams waiting;
  int least = 0, greatest = 0;
  PROBE_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  PROBE_EXPECT(greatest < least, "the GPU has one priority only");
  PROBE_DEVICE_MEMORY(device, kBytes);
  PROBE_PINNED_MEMORY(host, kBytes);
  memset(host, 7, kBytes);
  // One more than the queues, so that each queue has one that waits.
  PROBE_PASSES(Block(Connections() + 1, &waiting));
  // Without the default priority's stream the check would also pass if nothing blocked anything.
  PROBE_WORDS(normal_word, kWordStride);
  PROBE_STREAM(normal, cudaStreamNonBlocking);
  PROBE_CALL(cuStreamWriteValue64(normal, Pointer(normal_word), 1, 0));
  cudaStream_t copying = nullptr;
  PROBE_CALL(cudaStreamCreateWithPriority(&copying, cudaStreamNonBlocking, greatest));
  PROBE_CALL(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, copying));
  PROBE_WORDS(word, kWordStride);
  PROBE_CALL(cuStreamWriteValue64(copying, Pointer(word), 1, 0));
  const bool copied = Finishes(copying, kFreeMs);
  const bool normal_held = !WordBecomes(normal_word, 1, kHeldMs);
  waiting.Release();
  PROBE_EXPECT(copied, "waits of the default priority blocked a copy of the greatest priority");
  PROBE_EXPECT(Finishes(normal), "a stream did not finish after all waits were released");
  for (cudaStream_t stream : waiting.streams) {
    PROBE_EXPECT(Finishes(stream), "a stream did not finish after its wait was released");
  }
  return Pass(normal_held ? "a stream of the default priority was blocked, as expected"
                          : "a stream of the default priority was not blocked either");
}

// The shim's order at the end of a group: first all "ready" writes of all streams, then all
// waits. In any other order, two ranks of one process on streams that share a queue would block
// each other.
PROBE_CHECK(readies_before_waits, "all ready words first, then all waits: no deadlock") {
  constexpr size_t kStreams = 16;
  PROBE_WORDS(words, 2 * kStreams * kWordStride);
  std::vector<cudaStream_t> streams(kStreams);
  const auto ready = [&](size_t i) { return words + i * kWordStride; };
  const auto done = [&](size_t i) { return words + (kStreams + i) * kWordStride; };
  for (cudaStream_t& stream : streams) {
    PROBE_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  for (size_t i = 0; i < kStreams; ++i) {
    PROBE_CALL(cuStreamWriteValue64(streams[i], Pointer(ready(i)), 1, 0));
  }
  for (size_t i = 0; i < kStreams; ++i) {
    PROBE_CALL(cuStreamWaitValue64(streams[i], Pointer(done(i)), 1, kGeq));
  }
  for (size_t i = 0; i < kStreams; ++i) {
    PROBE_EXPECT(WordBecomes(ready(i), 1),
                 "a ready word was not written although no work precedes it");
  }
  for (size_t i = kStreams; i-- > 0;) StoreWord(done(i), 1);
  for (cudaStream_t stream : streams) {
    PROBE_EXPECT(Finishes(stream), "a stream did not finish after its wait was released");
  }
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
