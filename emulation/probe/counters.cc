// Counters in pinned memory and the data that they announce: the order of both for readers on the
// CPU, in a kernel, and in a kernel of another process.

#include <vector>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"
#include "emulation/probe/shared_memory.h"

namespace mccs::probe {
namespace {

constexpr size_t kSlotWords = 1024;
constexpr unsigned kCopyingThreads = 256;
constexpr int kRoundLimitMs = 10'000;

// The words that all processes share.
struct CounterPage {
  uint64_t counter[kWordStride];  // by the CPU: rounds whose data is in `in`
  uint64_t middle[kWordStride];   // by the first kernel: rounds whose data is in GPU memory
  uint64_t done[kWordStride];     // by the last kernel: rounds whose data is in `out`
  uint64_t errors[2][kWordStride];
  alignas(4096) uint64_t in[kSlotWords];
  alignas(4096) uint64_t out[kSlotWords];
};
constexpr size_t kCounterPageWords = sizeof(CounterPage) / sizeof(uint64_t);

CounterPage* MakeCounterPage() {
  return reinterpret_cast<CounterPage*>(SharedWords(kCounterPageWords));
}
Outcome RegisterCounters(CounterPage* page, int device) {
  return RegisterWords(reinterpret_cast<uint64_t*>(page), kCounterPageWords, device);
}

// Of the kernels that have reported a round. The data passes the first kernel first.
Outcome NoKernelErrors(const CounterPage* page) {
  PROBE_EXPECT(LoadWord(page->errors[0]) == 0, "a kernel saw the CPU's counter before the data");
  PROBE_EXPECT(LoadWord(page->errors[1]) == 0,
               "a kernel saw a counter before the data in another process's GPU memory");
  return Pass();
}

// The CPU's side of the rounds: writes the data, advances the counter, awaits the result and checks
// it. Ends after `rounds` or `limit_ms`. Then the kernels end, too.
Outcome RunRounds(CounterPage* page, uint64_t rounds, double limit_ms) {
  const Stopwatch total;
  std::vector<double> times;
  for (uint64_t round = 1; round <= rounds && total.ms() < limit_ms; ++round) {
    const Stopwatch stopwatch;
    for (size_t i = 0; i < kSlotWords; ++i) page->in[i] = Pattern(round, i);
    StoreWord(page->counter, round);
    PROBE_EXPECT(SpinUntil(page->done, round, kRoundLimitMs),
                 Text("round %zu did not end: a counter was not seen", times.size() + 1));
    PROBE_PASSES(NoKernelErrors(page));
    for (size_t i = kSlotWords; i-- > 0;) {
      PROBE_EXPECT(
          page->out[i] == Pattern(round, i),
          Text("the CPU saw the counter of round %zu before data word %zu", times.size() + 1, i));
    }
    times.push_back(stopwatch.us());
  }
  StoreWord(page->counter, kStop);
  return Pass(Text("%zu rounds of 8 KiB: ", times.size()) + Spread(times));
}

// The CPU's process has no context, as the daemon.
PROBE_CHECK(counters_between_cpu_and_kernel,
            "data written before a counter's release is seen after its acquire, both directions") {
  CounterPage* const page = MakeCounterPage();
  PROBE_EXPECT(page != nullptr, "cannot create shared words");
  Peer tenant([page](Peer& self) {
    PROBE_PASSES(RegisterCounters(page, 0));
    PROBE_STREAM(stream, cudaStreamNonBlocking);
    PROBE_CALL(kCopy.Launch(stream, {1, kCopyingThreads}, page->counter, page->in, page->out,
                            kSlotWords, page->done, kStop, page->errors[0]));
    const char started = 1;
    PROBE_EXPECT(self.Send(&started, 1), "the first process does not respond");
    PROBE_EXPECT(Finishes(stream, 2 * kRoundLimitMs), "the kernel did not end");
    return Pass();
  });
  char started = 0;
  PROBE_EXPECT(tenant.Receive(&started, 1), tenant.Join().text);
  const Outcome rounds = RunRounds(page, 50'000, 1500);
  PROBE_PASSES(rounds);
  PROBE_PASSES(tenant.Join());
  return rounds;
}

// The second process: reads the first one's GPU memory in a kernel on `device`.
Outcome ReadShared(Peer& self, CounterPage* page, int device, SharingMethod method) {
  uint64_t* data = nullptr;
  char started = 1;
  PROBE_PASSES(RegisterCounters(page, device));
  PROBE_PASSES(OpenShared(self, method, device, &data));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(kCopy.Launch(stream, {1, kCopyingThreads}, page->middle, data, page->out, kSlotWords,
                          page->done, kStop, page->errors[1]));
  PROBE_EXPECT(self.Send(&started, 1), "the first process does not respond");
  PROBE_EXPECT(Finishes(stream, 2 * kRoundLimitMs), "the reading kernel did not end");
  return Pass();
}

// CPU → kernel of this process → GPU memory → kernel of the second process → CPU.
Outcome RunThroughGpuMemory(int reader_device, SharingMethod method) {
  CounterPage* const page = MakeCounterPage();
  PROBE_EXPECT(page != nullptr, "cannot create shared words");
  Peer reader([=](Peer& self) { return ReadShared(self, page, reader_device, method); });
  PROBE_PASSES(RegisterCounters(page, 0));
  SharedAllocation data;
  PROBE_PASSES(data.Make(method, kSlotWords * sizeof(uint64_t)));
  PROBE_PASSES(data.Send(reader));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  char started = 0;
  PROBE_EXPECT(reader.Receive(&started, 1), reader.Join().text);
  PROBE_CALL(kCopy.Launch(stream, {1, kCopyingThreads}, page->counter, page->in, data.words(),
                          kSlotWords, page->middle, kStop, page->errors[0]));
  const Outcome rounds = RunRounds(page, 2000, 2000);
  PROBE_PASSES(rounds);
  PROBE_EXPECT(Finishes(stream, kRoundLimitMs), "the writing kernel did not end");
  StoreWord(page->middle, kStop);
  PROBE_PASSES(reader.Join());
  return rounds;
}

PROBE_CHECK(
    counters_announce_gpu_memory,
    "a kernel sees what another process's kernel wrote to GPU memory (IPC) before a counter") {
  return RunThroughGpuMemory(0, SharingMethod::kIpc);
}

PROBE_CHECK(counters_announce_virtual_memory,
            "the same for mapped memory that is shared by a descriptor") {
  return RunThroughGpuMemory(0, SharingMethod::kDescriptor);
}

PROBE_CHECK(counters_between_gpus, "the same for a reader on another GPU") {
  const Outcome second = SecondGpu();
  return second.verdict == Verdict::kPass ? RunThroughGpuMemory(1, SharingMethod::kIpc) : second;
}

}  // namespace
}  // namespace mccs::probe
