// Figures of launches and of words in pinned memory. No figure is a failure.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

constexpr int kBatches = 20;
constexpr int kBatch = 100;  // launches that are enqueued without waiting
// Only a kernel that hangs takes longer, also for thousands of launches beside other programs.
constexpr int kLatencyLimitMs = 30'000;

// Time per launch call, in µs: the median of the batches.
template <typename... Arguments>
Outcome TimeLaunches(const Kernel<Arguments...>& kernel, cudaStream_t stream, double* us,
                     Arguments... arguments) {
  CUfunction function = nullptr;
  PROBE_CALL(FindKernel(kernel.name(), &function));
  std::vector<double> times;
  for (int batch = 0; batch <= kBatches; ++batch) {
    const Stopwatch stopwatch;
    for (int i = 0; i < kBatch; ++i) {
      PROBE_CALL(Kernel<Arguments...>::LaunchOf(function, stream, {}, arguments...));
    }
    if (batch > 0) times.push_back(stopwatch.us() / kBatch);  // the first one loads the kernel
    PROBE_EXPECT(Finishes(stream, kLatencyLimitMs), "empty kernels did not end");
  }
  *us = Median(times);
  return Pass();
}

PROBE_CHECK(cost_of_launch,
            "reports the time of a launch with 0, 64 and 4,000 bytes of arguments") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  double none = 0;
  double some = 0;
  double many = 0;
  PROBE_PASSES(TimeLaunches(kEmpty, stream, &none));
  PROBE_PASSES(TimeLaunches(kEmpty64, stream, &some, ArgumentBytes<64>{}));
  PROBE_PASSES(TimeLaunches(kEmpty4000, stream, &many, ArgumentBytes<4000>{}));
  return Pass(Text("%.2f µs without arguments, %.2f µs with 64 bytes, %.2f µs with 4,000 bytes",
                   none, some, many));
}

PROBE_CHECK(latency_of_launch, "reports the time from a launch to the kernel's first store") {
  constexpr uint64_t kLaunches = 300;
  PROBE_WORDS(word, kWordStride);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  std::vector<double> times;
  for (uint64_t i = 1; i <= kLaunches; ++i) {
    const Stopwatch stopwatch;
    PROBE_CALL(kMark.Launch(stream, {}, word, i));
    PROBE_EXPECT(SpinUntil(word, i, kLatencyLimitMs), "the kernel's word is missing");
    if (i > 1) times.push_back(stopwatch.us());
    PROBE_EXPECT(Finishes(stream, kLatencyLimitMs), "the kernel did not end");
  }
  return Pass(Spread(times));
}

// A launch that waits for the kernels before it blocks its thread, and with it the launches of
// other ranks of the process, for which those kernels may wait.
PROBE_CHECK(
    launches_behind_kernel,
    "reports how many launches are enqueued behind a running kernel before one waits for it") {
  constexpr int kLaunches = 4096;
  constexpr auto kGuard = std::chrono::milliseconds(500);
  PROBE_WORDS(words, 3 * kWordStride);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  CUfunction empty = nullptr;
  PROBE_CALL(FindKernel(kEmpty64.name(), &empty));
  PROBE_CALL(kSpin.Launch(stream, {}, words, 1, words + kWordStride, words + 2 * kWordStride));
  PROBE_EXPECT(WordBecomes(words + kWordStride, 1), "the spinning kernel did not start");
  std::atomic<int> launched{0};
  std::atomic<bool> released{false};
  // Releases the kernel when the launches make no progress.
  std::thread guard([&] {
    for (int seen = -1; launched.load() < kLaunches && launched.load() != seen;) {
      seen = launched.load();
      std::this_thread::sleep_for(kGuard);
    }
    released.store(true);
    StoreWord(words, 1);
  });
  CUresult result = CUDA_SUCCESS;
  int beside = 0;
  while (launched.load() < kLaunches && result == CUDA_SUCCESS) {
    result = Kernel<ArgumentBytes<64>>::LaunchOf(empty, stream, {}, ArgumentBytes<64>{});
    if (!released.load()) ++beside;
    launched.fetch_add(1);
  }
  guard.join();
  PROBE_CALL(result);
  PROBE_EXPECT(Finishes(stream, kLatencyLimitMs), "the launches did not end");
  return Pass(beside == kLaunches ? Text("%d launches did not wait", kLaunches)
                                  : Text("launch %d waited for the kernel", beside + 1));
}

// CPU → kernel → CPU over words in pinned memory.
Outcome TimeRoundTrips(uint64_t pause_ns, std::string* text) {
  constexpr uint64_t kRounds = 10'000;
  constexpr double kTimeMs = 1000;
  PROBE_WORDS(words, 2 * kWordStride);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(kEcho.Launch(stream, {}, words, words + kWordStride, kRounds, pause_ns));
  std::vector<double> times;
  const Stopwatch total;
  for (uint64_t i = 1; i <= kRounds && total.ms() < kTimeMs; ++i) {
    const Stopwatch stopwatch;
    StoreWord(words, i);
    PROBE_EXPECT(SpinUntil(words + kWordStride, i, kLatencyLimitMs), "the kernel did not answer");
    times.push_back(stopwatch.us());
  }
  StoreWord(words, kStop);
  PROBE_EXPECT(Finishes(stream, kLatencyLimitMs), "the kernel did not end");
  times.erase(times.begin());  // contains the launch
  PROBE_EXPECT(!times.empty(), "one round took all the time");
  *text = Spread(times);
  return Pass();
}

PROBE_CHECK(round_trip_of_words,
            "reports the time from a word of the CPU to the kernel's answer in pinned memory") {
  std::string busy;
  std::string pausing;
  PROBE_PASSES(TimeRoundTrips(0, &busy));
  PROBE_PASSES(TimeRoundTrips(200, &pausing));
  return Pass("polls without a pause: " + busy + "; with 200 ns between polls: " + pausing);
}

}  // namespace
}  // namespace mccs::probe
