// One tenant of many: an ordinary NCCL program with two ranks in this process and several
// communicators, on each of which it posts small all-reduces and waits for them. Prints "ready",
// reads the start of the measurement from its input, and then prints the number of all-reduces
// that were completed in it.
#include <cuda_runtime.h>
#include <nccl.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <thread>
#include <vector>

#include "check_calls.h"

namespace {

constexpr int kRanks = 2;
constexpr size_t kElements = 2;
using Clock = std::chrono::steady_clock;

struct Communicator {
  ncclComm_t comms[kRanks];
  cudaStream_t streams[kRanks];
  float* memory[kRanks];
};

std::vector<Communicator> Open(int communicators) {
  std::vector<Communicator> opened(static_cast<size_t>(communicators));
  for (Communicator& communicator : opened) {
    NCCL_OK(ncclCommInitAll(communicator.comms, kRanks, nullptr));
    for (int r = 0; r < kRanks; ++r) {
      CUDA_OK(cudaSetDevice(r));
      CUDA_OK(cudaStreamCreate(&communicator.streams[r]));
      CUDA_OK(cudaMalloc(&communicator.memory[r], kElements * sizeof(float)));
    }
  }
  return opened;
}

void Post(const Communicator& communicator) {
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    NCCL_OK(ncclAllReduce(communicator.memory[r], communicator.memory[r], kElements, ncclFloat,
                          ncclMax, communicator.comms[r], communicator.streams[r]));
  }
  NCCL_OK(ncclGroupEnd());
}

void Wait(const Communicator& communicator) {
  for (cudaStream_t stream : communicator.streams) CUDA_OK(cudaStreamSynchronize(stream));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Small all-reduces on several communicators; prints how many were completed");
  int communicators = 1;
  int depth = 1;
  double seconds = 1;
  app.add_option("--communicators", communicators)->check(CLI::Range(1, 1024));
  app.add_option("--depth", depth, "all-reduces posted on a communicator before it is waited for")
      ->check(CLI::Range(1, 64));
  app.add_option("--seconds", seconds, "duration of the measurement")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const std::vector<Communicator> opened = Open(communicators);
  const auto post = [&](const Communicator& communicator) {
    for (int i = 0; i < depth; ++i) Post(communicator);
  };
  for (const Communicator& communicator : opened) post(communicator);
  for (const Communicator& communicator : opened) Wait(communicator);
  std::printf("ready\n");
  std::fflush(stdout);
  int64_t start_ns = 0;  // on the steady clock, which all processes of the machine share
  if (!(std::cin >> start_ns)) return 1;
  const Clock::time_point start{std::chrono::nanoseconds(start_ns)};
  const Clock::time_point end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::this_thread::sleep_until(start);
  uint64_t completed = 0;
  for (const Communicator& communicator : opened) post(communicator);
  for (size_t i = 0; Clock::now() < end; i = (i + 1) % opened.size()) {
    Wait(opened[i]);
    completed += static_cast<uint64_t>(depth);
    post(opened[i]);
  }
  std::printf("%llu\n", static_cast<unsigned long long>(completed));
  for (const Communicator& communicator : opened) {
    Wait(communicator);
    for (ncclComm_t comm : communicator.comms) NCCL_OK(ncclCommDestroy(comm));
  }
  return 0;
}
