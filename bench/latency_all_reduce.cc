// An ordinary NCCL program: two ranks in this process, small all-reduces. Prints two figures in
// microseconds: the median time of a call that is waited for, and the mean time of pipelined calls.
#include <cuda_runtime.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

#include "check_calls.h"

namespace {

constexpr int kRanks = 2;
constexpr int kWarmup = 100;
using Clock = std::chrono::steady_clock;

struct Rank {
  ncclComm_t comm;
  cudaStream_t stream;
  float* in;
  float* out;
};
using Ranks = std::array<Rank, kRanks>;

Ranks Open(size_t bytes) {
  Ranks ranks;
  ncclComm_t comms[kRanks];
  NCCL_OK(ncclCommInitAll(comms, kRanks, nullptr));
  for (int i = 0; i < kRanks; ++i) {
    CUDA_OK(cudaSetDevice(i));
    ranks[i].comm = comms[i];
    CUDA_OK(cudaStreamCreate(&ranks[i].stream));
    CUDA_OK(cudaMalloc(&ranks[i].in, bytes));
    CUDA_OK(cudaMalloc(&ranks[i].out, bytes));
    const std::vector<float> ones(bytes / sizeof(float), 1.0f);
    CUDA_OK(cudaMemcpy(ranks[i].in, ones.data(), bytes, cudaMemcpyHostToDevice));
  }
  return ranks;
}

void Launch(const Ranks& ranks, size_t count) {
  NCCL_OK(ncclGroupStart());
  for (const Rank& r : ranks)
    NCCL_OK(ncclAllReduce(r.in, r.out, count, ncclFloat, ncclSum, r.comm, r.stream));
  NCCL_OK(ncclGroupEnd());
}

void Synchronize(const Ranks& ranks) {
  for (const Rank& r : ranks) CUDA_OK(cudaStreamSynchronize(r.stream));
}

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double MedianLatency(const Ranks& ranks, size_t count, int iterations) {
  std::vector<double> taken;
  for (int i = 0; i < iterations; ++i) {
    const Clock::time_point start = Clock::now();
    Launch(ranks, count);
    Synchronize(ranks);
    taken.push_back(Microseconds(Clock::now() - start));
  }
  std::nth_element(taken.begin(), taken.begin() + iterations / 2, taken.end());
  return taken[iterations / 2];
}

double MeanPipelined(const Ranks& ranks, size_t count, int iterations) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < iterations; ++i) Launch(ranks, count);
  Synchronize(ranks);
  return Microseconds(Clock::now() - start) / iterations;
}

bool Right(const Ranks& ranks, size_t count) {
  for (const Rank& r : ranks) {
    std::vector<float> out(count);
    CUDA_OK(cudaMemcpy(out.data(), r.out, count * sizeof(float), cudaMemcpyDeviceToHost));
    if (std::any_of(out.begin(), out.end(), [](float x) { return x != kRanks; })) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Small all-reduces of two ranks in this process: prints the median microseconds of calls "
      "that "
      "are waited for, and the mean of pipelined calls");
  size_t bytes = 0;
  int iterations = 0;
  app.add_option("bytes", bytes)->required()->check(CLI::Range(sizeof(float), size_t{1} << 40));
  app.add_option("iterations", iterations)->required()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const size_t count = bytes / sizeof(float);
  const Ranks ranks = Open(count * sizeof(float));
  MedianLatency(ranks, count, kWarmup);
  const double latency = MedianLatency(ranks, count, iterations);
  std::printf("%.3f %.3f\n", latency, MeanPipelined(ranks, count, iterations));
  const bool right = Right(ranks, count);
  if (!right) std::fprintf(stderr, "latency_all_reduce: wrong result\n");
  for (const Rank& r : ranks) NCCL_OK(ncclCommDestroy(r.comm));
  return right ? 0 : 1;
}
