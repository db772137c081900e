// An ordinary NCCL program: small all-reduces of the ranks of one or several processes. Prints
// three figures in microseconds, measured by rank 0: the median and the 99th percentile of calls
// that are waited for, and the mean of pipelined calls.
#include <cuda_runtime.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "check_calls.h"
#include "collective_perf/ranks.h"
#include "rendezvous.h"

namespace {

constexpr int kWarmup = 100;
using Clock = std::chrono::steady_clock;
using collective_perf::LocalRank;
using collective_perf::Ranks;

struct Shape {
  size_t bytes = 8;  // of one call
  int calls = 2000;
  int per_group = 1;  // calls of each communicator in one group
  int ranks_per_process = 1;

  size_t count() const { return bytes / sizeof(float); }
};

void Launch(Ranks& ranks, const Shape& shape) {
  NCCL_OK(ncclGroupStart());
  for (int call = 0; call < shape.per_group; ++call) {
    const size_t offset = static_cast<size_t>(call) * shape.bytes;
    for (const LocalRank& r : ranks.local()) {
      NCCL_OK(ncclAllReduce(r.send + offset, r.receive + offset, shape.count(), ncclFloat, ncclSum,
                            r.comm, r.stream));
    }
  }
  NCCL_OK(ncclGroupEnd());
}

void Synchronize(Ranks& ranks) {
  for (const LocalRank& r : ranks.local()) CUDA_OK(cudaStreamSynchronize(r.stream));
}

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// Of each group that is waited for, ascending.
std::vector<double> Waited(Ranks& ranks, const Shape& shape, int groups) {
  std::vector<double> taken;
  for (int i = 0; i < groups; ++i) {
    const Clock::time_point start = Clock::now();
    Launch(ranks, shape);
    Synchronize(ranks);
    taken.push_back(Microseconds(Clock::now() - start));
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

double MeanPipelined(Ranks& ranks, const Shape& shape) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < shape.calls; ++i) Launch(ranks, shape);
  Synchronize(ranks);
  return Microseconds(Clock::now() - start) / shape.calls;
}

void Fill(Ranks& ranks, const Shape& shape) {
  const size_t count = shape.count() * static_cast<size_t>(shape.per_group);
  const std::vector<float> ones(count, 1.0f);
  for (const LocalRank& r : ranks.local()) {
    CUDA_OK(cudaMemcpy(r.send, ones.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  }
}

bool Right(Ranks& ranks, const Shape& shape) {
  std::vector<float> out(shape.count() * static_cast<size_t>(shape.per_group));
  const auto expected = static_cast<float>(ranks.size());
  for (const LocalRank& r : ranks.local()) {
    CUDA_OK(cudaMemcpy(out.data(), r.receive, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    if (std::any_of(out.begin(), out.end(), [&](float x) { return x != expected; })) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Small all-reduces: prints the median and the 99th percentile of the microseconds of a group "
      "of calls that is waited for, and the mean of pipelined groups.\n"
      "One process per GPU (torchrun's variables), several GPUs per process (-g), or both.");
  Shape shape;
  app.add_option("bytes", shape.bytes)
      ->required()
      ->check(CLI::Range(sizeof(float), size_t{1} << 40));
  app.add_option("groups", shape.calls, "number of groups")->required()->check(CLI::PositiveNumber);
  app.add_option("--per-group", shape.per_group, "calls of each rank in one group")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("-g,--gpus-per-process", shape.ranks_per_process, "ranks per process")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  shape.bytes = shape.count() * sizeof(float);
  Ranks ranks(ReadJobPlace(), shape.ranks_per_process,
              shape.bytes * static_cast<size_t>(shape.per_group));
  Fill(ranks, shape);
  Waited(ranks, shape, kWarmup);
  ranks.Sum(0);  // a barrier
  const std::vector<double> waited = Waited(ranks, shape, shape.calls);
  const double pipelined = MeanPipelined(ranks, shape);
  if (ranks.prints()) {
    std::printf("%.3f %.3f %.3f\n", waited[waited.size() / 2], waited[waited.size() * 99 / 100],
                pipelined);
  }
  const bool right = Right(ranks, shape);
  if (!right) std::fprintf(stderr, "call_latency: wrong result\n");
  return right ? 0 : 1;
}
