// Events within a stream and between streams.

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

PROBE_CHECK(event_orders_streams, "a stream waits for an event of another one") {
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_WORDS(words, 64);
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaEventRecord(event, first));
  PROBE_CALL(cudaStreamWaitEvent(second, event, 0));
  PROBE_CALL(cuStreamWriteValue64(second, Pointer(words + 8), 1, 0));
  PROBE_EXPECT(StaysBusy(second), "the second stream did not wait for the event");
  PROBE_EXPECT(cudaEventQuery(event) == cudaErrorNotReady, "the event was reached too early");
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(second), "the event did not release the second stream");
  PROBE_CALL(cudaEventSynchronize(event));
  PROBE_EXPECT(LoadWord(words + 8) == 1, "the second stream's work is missing");
  return Pass();
}

PROBE_CHECK(event_unrecorded, "an event that was never recorded blocks no stream") {
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_CALL(cudaEventQuery(event));
  PROBE_CALL(cudaStreamWaitEvent(second, event, 0));
  PROBE_EXPECT(Finishes(second), "an event that was never recorded blocked a stream");
  return Pass();
}

// A wait refers to the last record before it; later records do not affect it.
PROBE_CHECK(event_captured_at_call, "a wait refers to the last record before it") {
  if (Connections() < 8) return Skip("the two streams may share a queue");
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_WORDS(words, 64);
  PROBE_CALL(cudaEventRecord(event, first));
  PROBE_CALL(cuStreamWaitValue64(second, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaStreamWaitEvent(second, event, 0));
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words + 8), 1, kGeq));
  PROBE_CALL(cudaEventRecord(event, first));
  StoreWord(words, 1);
  const bool released = Finishes(second);
  StoreWord(words + 8, 1);
  PROBE_EXPECT(released, "a later record of the event blocked an earlier wait");
  PROBE_EXPECT(Finishes(first), "the first stream was not released");
  return Pass();
}

PROBE_CHECK(event_outlives_handle, "destroying an event does not affect waits for it") {
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_STREAM(second, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_WORDS(words, 64);
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaEventRecord(event, first));
  PROBE_CALL(cudaStreamWaitEvent(second, event, 0));
  PROBE_CALL(cudaEventDestroy(event));
  PROBE_EXPECT(StaysBusy(second), "destroying an event released a wait for it");
  StoreWord(words, 1);
  PROBE_EXPECT(Finishes(second), "the wait for a destroyed event did not end");
  return Pass();
}

PROBE_CHECK(event_elapsed_time, "events measure when their streams reached them") {
  PROBE_STREAM(first, cudaStreamNonBlocking);
  PROBE_EVENT(event);
  PROBE_WORDS(words, 64);
  float milliseconds = -1;
  PROBE_EVENT(end);
  PROBE_DEVICE_MEMORY(device, 1 << 20);
  PROBE_CALL(cudaEventRecord(event, first));
  PROBE_CALL(cuStreamWaitValue64(first, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaEventRecord(end, first));
  PROBE_EXPECT(cudaEventElapsedTime(&milliseconds, event, end) == cudaErrorNotReady,
               "cudaEventElapsedTime succeeded before the second event was reached");
  PROBE_EXPECT(StaysBusy(first), "the stream did not wait");
  StoreWord(words, 1);
  PROBE_CALL(cudaEventSynchronize(end));
  PROBE_CALL(cudaEventElapsedTime(&milliseconds, event, end));
  PROBE_EXPECT(milliseconds >= 20, "the time between two events does not include a wait of 30 ms");
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
