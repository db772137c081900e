// A training job as the network sees it: alternates compute and all-reduce until it is terminated
// or its communicator fails.
// Rank 0 prints a line for each step: its end on the monotonic clock and its duration, in seconds.
#include <time.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "check_calls.h"
#include "rendezvous.h"

namespace {

constexpr double kNsPerSecond = 1e9;

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / kNsPerSecond;
}

void Compute(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole,
                      static_cast<long>((seconds - static_cast<double>(whole)) * kNsPerSecond)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

// Ends the job with the communicator's error. A stream whose call has lost its peer stays blocked.
void Watch(ncclComm_t comm) {
  for (;;) {
    NCCL_COMM_OK(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Alternates compute and all-reduce until it is terminated or fails; prints the duration of "
      "each step");
  size_t bytes = 0;
  double compute_ms = 0;
  app.add_option("--bytes", bytes, "bytes of float32 to all-reduce")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--compute", compute_ms, "milliseconds of compute between two all-reduces")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const JobPlace place = ReadJobPlace();
  CUDA_OK(cudaSetDevice(place.local_rank));
  ncclComm_t comm = nullptr;
  NCCL_OK(ncclCommInitRank(&comm, place.world_size, ExchangeUniqueId(place), place.rank));
  std::thread(Watch, comm).detach();
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreate(&stream));
  void* buffer = nullptr;
  CUDA_OK(cudaMalloc(&buffer, bytes));
  CUDA_OK(cudaMemset(buffer, 0, bytes));
  for (;;) {
    const double begun = Now();
    Compute(compute_ms / 1e3);
    NCCL_OK(
        ncclAllReduce(buffer, buffer, bytes / sizeof(float), ncclFloat32, ncclSum, comm, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    const double ended = Now();
    if (place.rank != 0) continue;
    std::printf("%.6f %.6f\n", ended, ended - begun);
    std::fflush(stdout);
  }
}
