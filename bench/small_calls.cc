// An ordinary NCCL program: two ranks in this process, all-reduces of 8 bytes one by one. Prints
// how long the longest time from the end of one call to the end of the next one was, and how long
// this thread meanwhile was ready to run and had no processor: what the machine is to blame for.
#include <cuda_runtime.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "check_calls.h"

namespace {

constexpr int kRanks = 2;
constexpr size_t kElements = 2;
constexpr int kWarmup = 200;
// Shorter ones are not looked into: the look takes some microseconds itself.
constexpr double kNotedMs = 0.5;
volatile std::sig_atomic_t g_stop = 0;  // SIGTERM came
using Clock = std::chrono::steady_clock;

struct Rank {
  ncclComm_t comm;
  cudaStream_t stream;
  float* memory;
};
using Ranks = std::array<Rank, kRanks>;

Ranks Open() {
  Ranks ranks;
  ncclComm_t comms[kRanks];
  NCCL_OK(ncclCommInitAll(comms, kRanks, nullptr));
  for (int i = 0; i < kRanks; ++i) {
    CUDA_OK(cudaSetDevice(i));
    ranks[i].comm = comms[i];
    CUDA_OK(cudaStreamCreate(&ranks[i].stream));
    CUDA_OK(cudaMalloc(&ranks[i].memory, kElements * sizeof(float)));
  }
  return ranks;
}

void CallAndWait(const Ranks& ranks) {
  NCCL_OK(ncclGroupStart());
  for (const Rank& r : ranks) {
    NCCL_OK(ncclAllReduce(r.memory, r.memory, kElements, ncclFloat, ncclMax, r.comm, r.stream));
  }
  NCCL_OK(ncclGroupEnd());
  for (const Rank& r : ranks) CUDA_OK(cudaStreamSynchronize(r.stream));
}

// Milliseconds that this thread has waited for a processor so far.
double WaitedForProcessorMs() {
  std::ifstream file("/proc/thread-self/schedstat");
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;
  file >> ran_ns >> waited_ns;
  return static_cast<double>(waited_ns) / 1e6;
}

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "All-reduces of 8 bytes, one by one: prints the longest gap in milliseconds, how much of it "
      "the thread waited for a processor, when it was, and how many calls there were");
  double seconds = 0;
  app.add_option("seconds", seconds, "at most; SIGTERM ends it earlier")
      ->required()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  const Ranks ranks = Open();
  for (int i = 0; i < kWarmup; ++i) CallAndWait(ranks);
  std::printf("begun\n");
  std::fflush(stdout);

  const Clock::time_point begun = Clock::now();
  double waited_ms = WaitedForProcessorMs();
  double longest_ms = 0;
  double longest_waited_ms = 0;
  double longest_at_ms = 0;
  uint64_t calls = 0;
  for (Clock::time_point last = Clock::now();
       g_stop == 0 && Milliseconds(last - begun) < seconds * 1e3; ++calls) {
    CallAndWait(ranks);
    Clock::time_point now = Clock::now();
    const double gap_ms = Milliseconds(now - last);
    if (gap_ms >= kNotedMs) {
      const double waited_by_now_ms = WaitedForProcessorMs();
      if (gap_ms > longest_ms) {
        longest_ms = gap_ms;
        // Of shorter gaps before this one, too, but never more than the gap.
        longest_waited_ms = std::min(gap_ms, waited_by_now_ms - waited_ms);
        longest_at_ms = Milliseconds(now - begun);
      }
      waited_ms = waited_by_now_ms;
      now = Clock::now();
    }
    last = now;
  }
  std::printf("%.3f %.3f %.0f %llu\n", longest_ms, longest_waited_ms, longest_at_ms,
              static_cast<unsigned long long>(calls));
  for (const Rank& r : ranks) NCCL_OK(ncclCommDestroy(r.comm));
  return 0;
}
