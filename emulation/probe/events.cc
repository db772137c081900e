// Events within a stream and between streams.

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr unsigned kGeq = CU_STREAM_WAIT_VALUE_GEQ;

struct Fixture {
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t event = nullptr;
  uint64_t* words = nullptr;
};

Outcome Prepare(Fixture* fixture) {
  PROBE_CALL(cudaStreamCreateWithFlags(&fixture->first, cudaStreamNonBlocking));
  PROBE_CALL(cudaStreamCreateWithFlags(&fixture->second, cudaStreamNonBlocking));
  PROBE_CALL(cudaEventCreate(&fixture->event));
  fixture->words = PinnedWords(64);
  PROBE_HOLDS(fixture->words != nullptr, "no pinned memory");
  return Pass();
}
#define PROBE_PREPARE(fixture) \
  Fixture fixture;             \
  if (Outcome prepared = Prepare(&fixture); prepared.verdict != Verdict::kPass) return prepared

Outcome EventOrdersStreams() {
  PROBE_PREPARE(f);
  PROBE_CALL(cuStreamWaitValue64(f.first, Pointer(f.words), 1, kGeq));
  PROBE_CALL(cudaEventRecord(f.event, f.first));
  PROBE_CALL(cudaStreamWaitEvent(f.second, f.event, 0));
  PROBE_CALL(cuStreamWriteValue64(f.second, Pointer(f.words + 8), 1, 0));
  PROBE_HOLDS(StaysBusy(f.second), "the second stream did not wait for the event");
  PROBE_HOLDS(cudaEventQuery(f.event) == cudaErrorNotReady, "the event is reached too early");
  StoreWord(f.words, 1);
  PROBE_HOLDS(Finishes(f.second), "the event did not release the second stream");
  PROBE_CALL(cudaEventSynchronize(f.event));
  PROBE_HOLDS(LoadWord(f.words + 8) == 1, "the second stream's work is missing");
  return Pass();
}

Outcome EventOfUnrecorded() {
  PROBE_PREPARE(f);
  PROBE_CALL(cudaEventQuery(f.event));
  PROBE_CALL(cudaStreamWaitEvent(f.second, f.event, 0));
  PROBE_HOLDS(Finishes(f.second), "an event that was never recorded held a stream");
  return Pass();
}

// The wait is for the record that was made last before it, whatever is recorded later.
Outcome EventCapturedAtCall() {
  if (Connections() < 8) return Skip("the two streams may share a queue");
  PROBE_PREPARE(f);
  PROBE_CALL(cudaEventRecord(f.event, f.first));
  PROBE_CALL(cuStreamWaitValue64(f.second, Pointer(f.words), 1, kGeq));
  PROBE_CALL(cudaStreamWaitEvent(f.second, f.event, 0));
  PROBE_CALL(cuStreamWaitValue64(f.first, Pointer(f.words + 8), 1, kGeq));
  PROBE_CALL(cudaEventRecord(f.event, f.first));
  StoreWord(f.words, 1);
  const bool released = Finishes(f.second);
  StoreWord(f.words + 8, 1);
  PROBE_HOLDS(released, "a later record of the event held up an earlier wait");
  PROBE_HOLDS(Finishes(f.first), "the first stream was not released");
  return Pass();
}

Outcome EventOutlivesHandle() {
  PROBE_PREPARE(f);
  PROBE_CALL(cuStreamWaitValue64(f.first, Pointer(f.words), 1, kGeq));
  PROBE_CALL(cudaEventRecord(f.event, f.first));
  PROBE_CALL(cudaStreamWaitEvent(f.second, f.event, 0));
  PROBE_CALL(cudaEventDestroy(f.event));
  PROBE_HOLDS(StaysBusy(f.second), "destroying an event released a wait for it");
  StoreWord(f.words, 1);
  PROBE_HOLDS(Finishes(f.second), "the wait for a destroyed event does not end");
  return Pass();
}

Outcome ElapsedTime() {
  PROBE_PREPARE(f);
  cudaEvent_t end = nullptr;
  void* device = nullptr;
  float milliseconds = -1;
  PROBE_CALL(cudaEventCreate(&end));
  PROBE_CALL(cudaMalloc(&device, 1 << 20));
  PROBE_CALL(cudaEventRecord(f.event, f.first));
  PROBE_CALL(cuStreamWaitValue64(f.first, Pointer(f.words), 1, kGeq));
  PROBE_CALL(cudaEventRecord(end, f.first));
  PROBE_HOLDS(cudaEventElapsedTime(&milliseconds, f.event, end) == cudaErrorNotReady,
              "a time was told before the second event was reached");
  PROBE_HOLDS(StaysBusy(f.first), "the stream did not wait");
  StoreWord(f.words, 1);
  PROBE_CALL(cudaEventSynchronize(end));
  PROBE_CALL(cudaEventElapsedTime(&milliseconds, f.event, end));
  PROBE_HOLDS(milliseconds >= 20, "the time between two events misses a wait of 30 ms");
  return Pass();
}

}  // namespace

std::vector<Check> EventChecks() {
  return {
      {"event_orders_streams", "a stream waits for an event of another one", EventOrdersStreams},
      {"event_unrecorded", "an event that was never recorded holds up nobody", EventOfUnrecorded},
      {"event_captured_at_call", "a wait means the record made before it", EventCapturedAtCall},
      {"event_outlives_handle", "destroying an event leaves waits for it alone",
       EventOutlivesHandle},
      {"event_elapsed_time", "events tell when their streams reached them", ElapsedTime},
  };
}

}  // namespace mccs::probe
