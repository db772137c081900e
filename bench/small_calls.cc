// An ordinary NCCL program: two ranks in this process, all-reduces of 8 bytes one by one. Prints
// the longest gap between the ends of two calls, the part of it in which this thread and the
// daemon's engine were runnable without a processor, and the steal time of one of this machine's
// processors in it. Also prints quantiles of the gaps.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <nccl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "check_calls.h"

namespace {

constexpr int kRanks = 2;
constexpr size_t kElements = 2;
constexpr int kWarmup = 200;
constexpr double kLongMs = 1;           // read the steal time of gaps longer than this
volatile std::sig_atomic_t g_stop = 0;  // set by SIGTERM
using Clock = std::chrono::steady_clock;
// Also read the steal time this often, so that a reading in a gap has no earlier steal time.
constexpr auto kStealPeriod = std::chrono::milliseconds(20);

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

// Time that a thread has waited for a processor. A reading takes about a microsecond.
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

// Steal time of each processor from /proc/stat, in ticks of 10 ms. A reading takes tens of
// microseconds, so it happens outside gaps.
class Steal {
 public:
  // Milliseconds since the last call, of the processor with most steal time.
  double Since() {
    std::ifstream stat("/proc/stat");
    std::string line;
    double most = 0;
    for (size_t cpu = 0; std::getline(stat, line);) {
      unsigned long long steal = 0;
      if (std::sscanf(line.c_str(), "cpu%*u %*u %*u %*u %*u %*u %*u %*u %llu", &steal) != 1)
        continue;
      if (cpu == ticks_.size()) ticks_.push_back(steal);
      most = std::max(most,
                      static_cast<double>(steal - std::exchange(ticks_[cpu++], steal)) * kTickMs);
    }
    return most;
  }

 private:
  static constexpr double kTickMs = 10;
  std::vector<unsigned long long> ticks_;
};

// Time between the ends of two calls.
struct Gap {
  double ms = 0;
  double own_wait_ms = 0;
  double engine_wait_ms = 0;
  double stolen_ms = 0;
  double at_ms = 0;  // since the start

  double Unstolen() const { return std::max(0.0, ms - stolen_ms); }
};

void Print(const Gap& gap) {
  std::printf("%.3f %.3f %.3f %.0f %.0f\n", gap.ms, gap.own_wait_ms, gap.engine_wait_ms,
              gap.stolen_ms, gap.at_ms);
}

// Quantiles of many gaps in little memory, by their logarithm: exact to 1 %.
class Quantiles {
 public:
  void Add(double ms) {
    const double place = std::log(std::max(ms, kLeastMs) / kLeastMs) / std::log(kFactor);
    ++counts_[std::min(static_cast<size_t>(place), counts_.size() - 1)];
    ++total_;
  }
  double Of(double share) const {
    double left = share * static_cast<double>(total_);
    size_t i = 0;
    for (; i + 1 < counts_.size() && left >= static_cast<double>(counts_[i]); ++i) {
      left -= static_cast<double>(counts_[i]);
    }
    return kLeastMs * std::pow(kFactor, static_cast<double>(i) + 0.5);
  }

 private:
  static constexpr double kLeastMs = 1e-5;
  static constexpr double kFactor = 1.01;
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(2500);  // up to 600 s
  uint64_t total_ = 0;
};

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "All-reduces of 8 bytes, one by one. Prints the number of calls; then for the longest gap: "
      "its milliseconds, the milliseconds in which the thread and the engine waited for a "
      "processor, the steal time, and its start; then the same for the gap that is longest without "
      "steal time; then the median and the 99th percentile of all gaps in milliseconds");
  double seconds = 0;
  app.add_option("seconds", seconds, "maximum duration in seconds; SIGTERM stops it earlier")
      ->required()
      ->check(CLI::PositiveNumber);
  int engine = 0;
  app.add_option("--engine", engine, "pid of mccsd; its main thread is the engine");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  const Ranks ranks = Open();
  for (int i = 0; i < kWarmup; ++i) CallAndWait(ranks);
  std::printf("begun\n");
  std::fflush(stdout);

  ProcessorWait own("/proc/thread-self/schedstat");
  const std::string of_engine = std::to_string(engine);
  ProcessorWait engines("/proc/" + of_engine + "/task/" + of_engine + "/schedstat");
  Steal steal;
  own.Since();
  engines.Since();
  steal.Since();
  Gap longest;
  Gap longest_unstolen;
  Quantiles quantiles;
  uint64_t calls = 0;
  const Clock::time_point begun = Clock::now();
  Clock::time_point looked = begun;
  for (Clock::time_point last = begun; g_stop == 0 && Milliseconds(last - begun) < seconds * 1e3;
       ++calls) {
    CallAndWait(ranks);
    const Clock::time_point now = Clock::now();
    Gap gap{.ms = Milliseconds(now - last),
            .own_wait_ms = own.Since(),
            .engine_wait_ms = engines.Since(),
            .at_ms = Milliseconds(now - begun)};
    if (gap.ms > kLongMs || now - looked > kStealPeriod) {
      gap.stolen_ms = steal.Since();
      looked = now;
    }
    quantiles.Add(gap.ms);
    if (gap.ms > longest.ms) longest = gap;
    if (gap.Unstolen() > longest_unstolen.Unstolen()) longest_unstolen = gap;
    last = Clock::now();
  }
  std::printf("%llu\n", static_cast<unsigned long long>(calls));
  Print(longest);
  Print(longest_unstolen);
  std::printf("%.6f %.6f\n", quantiles.Of(0.5), quantiles.Of(0.99));
  for (const Rank& r : ranks) NCCL_OK(ncclCommDestroy(r.comm));
  return 0;
}
