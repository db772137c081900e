// Hardware queues: which streams a pending wait holds up. A GPU maps its streams onto
// CUDA_DEVICE_MAX_CONNECTIONS queues, 8 unless set; streams that share one may hold up each other.

#include <algorithm>
#include <string>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr size_t kWordStride = 8;  // one cache line per word
constexpr int kForty = 40;
// The legacy default stream has a queue, too.
constexpr int kOtherQueues = 2;
// How long work may take that nothing holds up, on a busy machine; and how long we look where it is
// expected to be held up.
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
  PROBE_HOLDS(waiting->words != nullptr, "no pinned memory");
  for (int i = 0; i < count; ++i) {
    cudaStream_t stream = nullptr;
    PROBE_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    waiting->streams.push_back(stream);
    PROBE_CALL(
        cuStreamWaitValue64(stream, Pointer(waiting->word(static_cast<size_t>(i))), 1, kGeq));
  }
  return Pass();
}

// A stream that copies and writes a word beside `count` waiting ones. `*held`: it did not come to
// its end before they were released.
Outcome WorkBeside(int count, bool* held) {
  WaitingStreams waiting;
  PROBE_PASSES(Block(count, &waiting));
  PROBE_WORDS(word, kWordStride);
  PROBE_STREAM(working, cudaStreamNonBlocking);
  PROBE_DEVICE_MEMORY(device, 1 << 20);
  PROBE_CALL(cudaMemsetAsync(device, 1, 1 << 20, working));
  PROBE_CALL(cuStreamWriteValue64(working, Pointer(word), 1, 0));
  *held = !Finishes(working, Connections() < count + kOtherQueues ? kHeldMs : kFreeMs);
  waiting.Release();
  PROBE_HOLDS(Finishes(working), "the working stream does not finish after all waits are over");
  for (cudaStream_t stream : waiting.streams) {
    PROBE_HOLDS(Finishes(stream), "a stream does not finish after its wait is over");
  }
  return Pass();
}

Outcome FortyWaits() {
  bool held = false;
  PROBE_PASSES(WorkBeside(kForty, &held));
  if (!held) return Pass();
  const int connections = Connections();
  PROBE_HOLDS(connections < kForty + kOtherQueues,
              "a stream with a queue of its own was held up by waits in others");
  return Skip("held up by the waits, as is to be expected with " + std::to_string(connections) +
              " connections for 41 streams; all went on after the release");
}

Outcome FewWaits() {
  const int count = Connections() - kOtherQueues - 1;
  if (count < 1) return Skip("too few connections for a wait and work side by side");
  bool held = false;
  PROBE_PASSES(WorkBeside(std::min(count, kForty), &held));
  PROBE_HOLDS(!held, "a stream was held up although there are more connections than streams");
  return Pass();
}

Outcome TwoWaits() {
  if (Connections() <= kOtherQueues) return Skip("the two streams share a queue");
  WaitingStreams waiting;
  PROBE_PASSES(Block(2, &waiting));
  StoreWord(waiting.word(1), 1);
  PROBE_HOLDS(Finishes(waiting.streams[1]), "the second stream waits for the first one's word");
  PROBE_HOLDS(StaysBusy(waiting.streams[0]), "the first stream did not wait for its word");
  waiting.Release();
  PROBE_HOLDS(Finishes(waiting.streams[0]), "the first stream was not released");
  return Pass();
}

// What the shim does at the end of a group: all "ready" of all streams, then all waits. Two ranks
// of one process on streams that share a queue would block each other in any other order.
Outcome ReadiesBeforeWaits() {
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
    PROBE_HOLDS(WordBecomes(ready(i), 1), "a stream is not ready although nothing is before it");
  }
  for (size_t i = kStreams; i-- > 0;) StoreWord(done(i), 1);
  for (cudaStream_t stream : streams) {
    PROBE_HOLDS(Finishes(stream), "a stream does not finish after its wait is over");
  }
  return Pass();
}

}  // namespace

std::vector<Check> QueueChecks() {
  return {
      {"two_waits", "two streams' waits do not hold up each other", TwoWaits},
      {"few_waits_beside_work", "waits leave streams with other queues alone", FewWaits},
      {"forty_waits_beside_work", "forty waiting streams leave a working one alone", FortyWaits},
      {"readies_before_waits", "all ready words first, then all waits: never a deadlock",
       ReadiesBeforeWaits},
  };
}

}  // namespace mccs::probe
