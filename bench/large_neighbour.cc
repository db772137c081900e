// An ordinary NCCL program with a lot of memory: two ranks in this process register their buffers
// as a whole and reduce all of them. Prints each step and then waits to be killed.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <vector>

#include "check_calls.h"

namespace {

constexpr int kRanks = 2;
constexpr size_t kBufferBytes = size_t{1} << 30;

struct Rank {
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<float*> buffers;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Registers memory, reduces all of it, and waits to be killed");
  size_t gib = 0;
  app.add_option("gib", gib, "GiB of memory of both ranks together")
      ->required()
      ->check(CLI::Range(2, 1024));
  int communicators = 0;
  app.add_option("--communicators", communicators,
                 "number of additional communicators, never used");
  size_t call_mib = 64;
  app.add_option("--call-mib", call_mib, "MiB of one all-reduce; 1024: a whole buffer")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const size_t call_bytes = call_mib << 20;
  std::array<Rank, kRanks> ranks;
  ncclComm_t comms[kRanks];
  NCCL_OK(ncclCommInitAll(comms, kRanks, nullptr));
  const size_t buffers = gib / kRanks;
  for (int i = 0; i < kRanks; ++i) {
    CUDA_OK(cudaSetDevice(i));
    ranks[i].comm = comms[i];
    CUDA_OK(cudaStreamCreate(&ranks[i].stream));
    for (size_t b = 0; b < buffers; ++b) {
      float* buffer = nullptr;
      void* handle = nullptr;
      CUDA_OK(cudaMalloc(&buffer, kBufferBytes));
      NCCL_OK(ncclCommRegister(ranks[i].comm, buffer, kBufferBytes, &handle));
      ranks[i].buffers.push_back(buffer);
    }
  }
  std::printf("registered\n");
  std::fflush(stdout);
  for (size_t b = 0; b < buffers; ++b) {
    for (size_t at = 0; at + call_bytes <= kBufferBytes; at += call_bytes) {
      NCCL_OK(ncclGroupStart());
      for (const Rank& r : ranks) {
        float* const memory = r.buffers[b] + at / sizeof(float);
        NCCL_OK(ncclAllReduce(memory, memory, call_bytes / sizeof(float), ncclFloat, ncclSum,
                              r.comm, r.stream));
      }
      NCCL_OK(ncclGroupEnd());
      for (const Rank& r : ranks) CUDA_OK(cudaStreamSynchronize(r.stream));
    }
  }
  for (int i = 0; i < communicators; ++i) {
    ncclComm_t more[kRanks];
    NCCL_OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      NCCL_OK(ncclCommSplit(ranks[r].comm, 0, r, &more[r], nullptr));
    }
    NCCL_OK(ncclGroupEnd());
  }
  std::printf("worked\n");
  std::fflush(stdout);
  for (;;) pause();
}
