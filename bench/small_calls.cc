// An ordinary NCCL program: two ranks in this process, all-reduces of 8 bytes one by one. Prints
// the longest time from the end of one call to the end of the next one, and how long this thread
// and the daemon's engine meanwhile were ready to run and had no processor.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nccl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "check_calls.h"

namespace {

constexpr int kRanks = 2;
constexpr size_t kElements = 2;
constexpr int kWarmup = 200;
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

// How long a thread has waited for a processor. A look takes about a microsecond.
class ProcessorWait {
 public:
  explicit ProcessorWait(const std::string& schedstat) : fd_(open(schedstat.c_str(), O_RDONLY)) {}
  ~ProcessorWait() {
    if (fd_ >= 0) close(fd_);
  }
  ProcessorWait(const ProcessorWait&) = delete;
  ProcessorWait& operator=(const ProcessorWait&) = delete;

  // Milliseconds since the last call.
  double Since() {
    char text[128] = {};
    unsigned long long waited_ns = 0;
    if (fd_ < 0 || pread(fd_, text, sizeof(text) - 1, 0) <= 0 ||
        std::sscanf(text, "%*u %llu", &waited_ns) != 1) {
      return 0;
    }
    const double now_ms = static_cast<double>(waited_ns) / 1e6;
    return now_ms - std::exchange(last_ms_, now_ms);
  }

 private:
  const int fd_;
  double last_ms_ = 0;
};

// From the end of one call to the end of the next one.
struct Gap {
  double ms = 0;
  double own_wait_ms = 0;
  double engine_wait_ms = 0;
  double at_ms = 0;  // from the beginning
};

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "All-reduces of 8 bytes, one by one: prints the longest gap in milliseconds, how much of it "
      "the thread and the engine waited for a processor, when it was, and how many calls there "
      "were");
  double seconds = 0;
  app.add_option("seconds", seconds, "at most; SIGTERM ends it earlier")
      ->required()
      ->check(CLI::PositiveNumber);
  int engine = 0;
  app.add_option("--engine", engine, "process id of mccsd; its main thread is the engine");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  const Ranks ranks = Open();
  for (int i = 0; i < kWarmup; ++i) CallAndWait(ranks);
  std::printf("begun\n");
  std::fflush(stdout);

  ProcessorWait own("/proc/thread-self/schedstat");
  const std::string of_engine = std::to_string(engine);
  ProcessorWait engines("/proc/" + of_engine + "/task/" + of_engine + "/schedstat");
  own.Since();
  engines.Since();
  Gap longest;
  uint64_t calls = 0;
  const Clock::time_point begun = Clock::now();
  for (Clock::time_point last = begun; g_stop == 0 && Milliseconds(last - begun) < seconds * 1e3;
       ++calls) {
    CallAndWait(ranks);
    const Clock::time_point now = Clock::now();
    const Gap gap{.ms = Milliseconds(now - last),
                  .own_wait_ms = own.Since(),
                  .engine_wait_ms = engines.Since(),
                  .at_ms = Milliseconds(now - begun)};
    if (gap.ms > longest.ms) longest = gap;
    last = Clock::now();
  }
  std::printf("%.3f %.3f %.3f %.0f %llu\n", longest.ms, longest.own_wait_ms, longest.engine_wait_ms,
              longest.at_ms, static_cast<unsigned long long>(calls));
  for (const Rank& r : ranks) NCCL_OK(ncclCommDestroy(r.comm));
  return 0;
}
