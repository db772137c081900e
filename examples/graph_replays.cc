// Captures an all-reduce of 8 bytes into a graph on each rank, and replays it: prints the mean
// microseconds of replays that are waited for, and of pipelined ones.
//
//   graph_replays REPLAYS [-g RANKS_PER_PROCESS]
//
// The sum is in place, so each replay multiplies the value by the number of ranks, modulo 2^64.
// With an odd number of ranks, a replay that was lost or ran twice gives another value.
#include <cuda_runtime.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "check_calls.h"
#include "collective_perf/ranks.h"
#include "rendezvous.h"

namespace {

// A replay that is waited for may take a time slice of each process.
constexpr int kPipelinedPerWaited = 5;
using Clock = std::chrono::steady_clock;
using collective_perf::LocalRank;
using collective_perf::Ranks;

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// One graph for each local rank.
std::vector<cudaGraphExec_t> Capture(Ranks& ranks) {
  for (const LocalRank& r : ranks.local()) {
    CUDA_OK(cudaSetDevice(r.device));
    CUDA_OK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
  }
  NCCL_OK(ncclGroupStart());
  for (const LocalRank& r : ranks.local()) {
    NCCL_OK(ncclAllReduce(r.receive, r.receive, 1, ncclUint64, ncclSum, r.comm, r.stream));
  }
  NCCL_OK(ncclGroupEnd());
  std::vector<cudaGraphExec_t> graphs;
  for (const LocalRank& r : ranks.local()) {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamEndCapture(r.stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&graphs.emplace_back(), graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
  }
  return graphs;
}

void Launch(Ranks& ranks, const std::vector<cudaGraphExec_t>& graphs) {
  for (size_t i = 0; i < graphs.size(); ++i) {
    CUDA_OK(cudaGraphLaunch(graphs[i], ranks.local()[i].stream));
  }
}

// The mean of `replays`.
double Replay(Ranks& ranks, const std::vector<cudaGraphExec_t>& graphs, int replays, bool wait) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < replays; ++i) {
    Launch(ranks, graphs);
    if (wait) ranks.Synchronize();
  }
  ranks.Synchronize();
  return Microseconds(Clock::now() - start) / replays;
}

void Fill(Ranks& ranks) {
  const uint64_t one = 1;
  for (const LocalRank& r : ranks.local()) {
    CUDA_OK(cudaMemcpy(r.receive, &one, sizeof(one), cudaMemcpyHostToDevice));
  }
  ranks.Sum(0);  // a barrier
}

bool Right(Ranks& ranks, int replays) {
  uint64_t expected = 1;
  for (int i = 0; i < replays; ++i) expected *= static_cast<uint64_t>(ranks.size());
  for (const LocalRank& r : ranks.local()) {
    uint64_t value = 0;
    CUDA_OK(cudaMemcpy(&value, r.receive, sizeof(value), cudaMemcpyDeviceToHost));
    if (value != expected) {
      std::fprintf(stderr, "graph_replays: rank %d has %llu, expected %llu\n", r.rank,
                   static_cast<unsigned long long>(value),
                   static_cast<unsigned long long>(expected));
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Replays a captured all-reduce of 8 bytes and checks the result: prints the mean "
      "microseconds "
      "of replays that are waited for, and of pipelined ones.\n"
      "One process per GPU (torchrun's variables), several ranks per process (-g), or both.");
  int replays = 1000;
  int ranks_per_process = 1;
  app.add_option("replays", replays, "number of pipelined replays")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("-g,--gpus-per-process", ranks_per_process, "ranks per process")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  Ranks ranks(ReadJobPlace(), ranks_per_process, sizeof(uint64_t));
  const std::vector<cudaGraphExec_t> graphs = Capture(ranks);
  Fill(ranks);
  const int waited_replays = replays / kPipelinedPerWaited + 1;
  const double waited = Replay(ranks, graphs, waited_replays, true);
  const double pipelined = Replay(ranks, graphs, replays, false);
  const bool right = Right(ranks, waited_replays + replays);
  if (ranks.prints()) std::printf("%.3f %.3f\n", waited, pipelined);
  for (cudaGraphExec_t graph : graphs) CUDA_OK(cudaGraphExecDestroy(graph));
  return right ? 0 : 1;
}
