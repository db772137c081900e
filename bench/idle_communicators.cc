// Measures the cost of idle communicators: small all-reduces of one communicator, each waited for,
// with increasing numbers of idle communicators of the same ranks. An ordinary NCCL program: two
// ranks in one process, or with torchrun's variables one rank per process. Rank 0 prints one JSON
// line per number of idle communicators.
#include <cuda_runtime.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "check_calls.h"
#include "rendezvous.h"

namespace {

constexpr int kRanksAlone = 2;
constexpr int kWarmup = 200;
using Clock = std::chrono::steady_clock;

// A rank of this process and its communicators.
struct Rank {
  int rank = 0;
  ncclComm_t busy = nullptr;
  std::vector<ncclComm_t> idle = {};
  cudaStream_t stream = nullptr;
  float* buffer = nullptr;
};
using Ranks = std::vector<Rank>;

Ranks Open(const JobPlace& place, size_t bytes) {
  Ranks ranks;
  if (place.world_size > 1) {
    CUDA_OK(cudaSetDevice(place.local_rank));
    Rank& own = ranks.emplace_back(Rank{.rank = place.rank});
    NCCL_OK(ncclCommInitRank(&own.busy, place.world_size, ExchangeUniqueId(place), place.rank));
  } else {
    ncclComm_t comms[kRanksAlone];
    NCCL_OK(ncclCommInitAll(comms, kRanksAlone, nullptr));
    for (int r = 0; r < kRanksAlone; ++r) ranks.push_back({.rank = r, .busy = comms[r]});
  }
  for (Rank& rank : ranks) {
    if (place.world_size == 1) CUDA_OK(cudaSetDevice(rank.rank));
    CUDA_OK(cudaStreamCreate(&rank.stream));
    CUDA_OK(cudaMalloc(&rank.buffer, bytes));
    CUDA_OK(cudaMemset(rank.buffer, 0, bytes));
  }
  return ranks;
}

// Runs one all-reduce on each rank's communicator selected by `choose`, and waits for it.
template <typename Choose>
void AllReduce(const Ranks& ranks, size_t count, const Choose& choose) {
  NCCL_OK(ncclGroupStart());
  for (const Rank& r : ranks) {
    NCCL_OK(ncclAllReduce(r.buffer, r.buffer, count, ncclFloat, ncclSum, choose(r), r.stream));
  }
  NCCL_OK(ncclGroupEnd());
  for (const Rank& r : ranks) CUDA_OK(cudaStreamSynchronize(r.stream));
}

// Adds communicators that have run one operation.
void AddIdle(Ranks& ranks, size_t count, size_t total) {
  while (ranks.front().idle.size() < total) {
    for (Rank& r : ranks) r.idle.push_back(nullptr);
    NCCL_OK(ncclGroupStart());
    for (Rank& r : ranks) NCCL_OK(ncclCommSplit(r.busy, 0, r.rank, &r.idle.back(), nullptr));
    NCCL_OK(ncclGroupEnd());
    AllReduce(ranks, count, [](const Rank& r) { return r.idle.back(); });
  }
}

std::vector<double> SortedLatencies(const Ranks& ranks, size_t count, int calls) {
  std::vector<double> us;
  for (int i = 0; i < kWarmup + calls; ++i) {
    const Clock::time_point start = Clock::now();
    AllReduce(ranks, count, [](const Rank& r) { return r.busy; });
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (i >= kWarmup) us.push_back(took.count());
  }
  std::sort(us.begin(), us.end());
  return us;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Small all-reduces of one communicator, each waited for, next to idle communicators; prints "
      "one "
      "JSON line per number of idle communicators");
  std::vector<size_t> idle = {0, 100, 400};
  int calls = 3000;
  size_t bytes = 8;
  app.add_option("--idle", idle, "numbers of idle communicators, in ascending order")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--calls", calls)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--bytes", bytes)->capture_default_str()->check(CLI::Range(4, 1 << 30));
  CLI11_PARSE(app, argc, argv);
  const JobPlace place = ReadJobPlace();
  const size_t count = bytes / sizeof(float);
  Ranks ranks = Open(place, count * sizeof(float));
  for (const size_t total : idle) {
    AddIdle(ranks, count, total);
    const std::vector<double> us = SortedLatencies(ranks, count, calls);
    if (place.rank != 0) continue;
    std::printf(
        "{\"bench\": \"idle_communicators\", \"idle\": %zu, \"ranks\": %d, \"processes\": %d, "
        "\"bytes\": %zu, \"calls\": %d, \"p10_us\": %.2f, \"median_us\": %.2f}\n",
        ranks.front().idle.size(), std::max(place.world_size, static_cast<int>(ranks.size())),
        place.world_size, bytes, calls, us[us.size() / 10], us[us.size() / 2]);
    std::fflush(stdout);
  }
  for (Rank& r : ranks) {
    for (ncclComm_t comm : r.idle) NCCL_OK(ncclCommDestroy(comm));
    NCCL_OK(ncclCommDestroy(r.busy));
    CUDA_OK(cudaFree(r.buffer));
    CUDA_OK(cudaStreamDestroy(r.stream));
  }
  return 0;
}
