// A job that repeatedly allocates, all-reduces and frees in one of several modes, and checks every
// sum:
//
// clang-format off
//   allocation_churn seen ROUNDS BYTES        frees by cudaFree
//   allocation_churn unseen ROUNDS BYTES      frees by an address from dlsym(), as a statically
//                                             linked runtime does
//   allocation_churn nccl ROUNDS BYTES        ncclMemAlloc and ncclMemFree; checks for leaks
//   allocation_churn registered ROUNDS BYTES  registers meanwhile, frees as unseen
//   allocation_churn left ROUNDS BYTES        frees all as unseen at the end, waits until the GPU
//                                             has as much memory as before, prints "back SECONDS"
//   allocation_churn early ROUNDS BYTES       rank 0 frees while the all-reduce waits for the
//                                             others; prints "freed SECONDS" once
//   allocation_churn on_signal 1 BYTES        prints "ready", frees on SIGUSR1, prints
//                                             "freed SECONDS"
// clang-format on
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "check_calls.h"
#include "rendezvous.h"

namespace {

constexpr size_t kCount = 1000;   // elements at the end of each allocation
constexpr size_t kGrowth = 4096;  // bytes per round, so that addresses are not reused
constexpr double kLateSeconds = 0.5;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Say(const char* what, double seconds) {
  std::printf("%s %.3f\n", what, seconds);
  std::fflush(stdout);
}

// Frees without calling a name of the driver that a preloaded library could intercept.
void FreeUnseen(void* memory) {
  using Free = int (*)(uint64_t);
  static const auto free_memory =
      reinterpret_cast<Free>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemFree_v2"));
  if (free_memory != nullptr && free_memory(reinterpret_cast<uint64_t>(memory)) == 0) return;
  std::fprintf(stderr, "cuMemFree_v2 by its address failed\n");
  std::exit(1);
}

size_t FreeBytes() {
  size_t free_bytes = 0;
  size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class Churn {
 public:
  Churn(const JobPlace& place, const ncclUniqueId& id) : place_(place) {
    CUDA_OK(cudaSetDevice(place.local_rank));
    NCCL_OK(ncclCommInitRank(&comm_, place.world_size, id, place.rank));
    CUDA_OK(cudaStreamCreate(&stream_));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&result_), kCount * sizeof(float)));
  }

  char* Allocate(size_t bytes) {
    void* memory = nullptr;
    CUDA_OK(cudaMalloc(&memory, bytes));
    return static_cast<char*>(memory);
  }

  // Starts an all-reduce of the allocation's last elements.
  void Post(const char* memory, size_t bytes) {
    auto* input = reinterpret_cast<float*>(const_cast<char*>(memory) + bytes) - kCount;
    const std::vector<float> mine(kCount, static_cast<float>(place_.rank + 1));
    CUDA_OK(cudaMemcpy(input, mine.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
    NCCL_OK(ncclAllReduce(input, result_, kCount, ncclFloat32, ncclSum, comm_, stream_));
  }

  void Check() {
    std::vector<float> sums(kCount);
    CUDA_OK(cudaStreamSynchronize(stream_));
    NCCL_COMM_OK(comm_);
    CUDA_OK(cudaMemcpy(sums.data(), result_, kCount * sizeof(float), cudaMemcpyDeviceToHost));
    const float expected = static_cast<float>(place_.world_size * (place_.world_size + 1) / 2);
    for (float sum : sums) {
      if (sum == expected) continue;
      std::fprintf(stderr, "wrong sum: %g, expected %g\n", sum, expected);
      std::exit(1);
    }
  }

  void Rounds(int rounds, size_t bytes, void (*free_memory)(void*)) {
    for (int i = 0; i < rounds; ++i) {
      const size_t all = bytes + static_cast<size_t>(i) * kGrowth;
      char* memory = Allocate(all);
      Post(memory, all);
      Check();
      free_memory(memory);
    }
  }

  // Free memory and open descriptors stay the same after the first round.
  void Nccl(int rounds, size_t bytes) {
    size_t before = 0;
    size_t descriptors = 0;
    for (int i = 0; i < rounds; ++i) {
      void* memory = nullptr;
      const size_t all = bytes + static_cast<size_t>(i) * kGrowth;
      NCCL_OK(ncclMemAlloc(&memory, all));
      Post(static_cast<char*>(memory), all);
      Check();
      NCCL_OK(ncclMemFree(memory));
      if (i == 0) {
        before = FreeBytes();
        descriptors = OpenDescriptors();
      }
      if (FreeBytes() == before && OpenDescriptors() == descriptors) continue;
      std::fprintf(stderr,
                   "round %d: %zu bytes free (%zu after the first), %zu descriptors (%zu)\n", i,
                   FreeBytes(), before, OpenDescriptors(), descriptors);
      std::exit(1);
    }
  }

  void Registered(int rounds, size_t bytes) {
    const size_t before = FreeBytes();
    for (int i = 0; i < rounds; ++i) {
      void* handle = nullptr;
      char* memory = Allocate(bytes);
      NCCL_OK(ncclCommRegister(comm_, memory, bytes, &handle));
      Post(memory, bytes);
      Check();
      NCCL_OK(ncclCommDeregister(comm_, handle));
      FreeUnseen(memory);
      if (FreeBytes() == before) continue;
      std::fprintf(stderr, "memory was not released by ncclCommDeregister\n");
      std::exit(1);
    }
  }

  void Left(int rounds, size_t bytes) {
    const size_t before = FreeBytes();
    std::vector<char*> allocations;
    for (int i = 0; i < rounds; ++i) {
      allocations.push_back(Allocate(bytes));
      Post(allocations.back(), bytes);
      Check();
    }
    for (char* memory : allocations) FreeUnseen(memory);
    const double freed = Now();
    while (FreeBytes() < before) usleep(1000);
    Say("back", Now() - freed);
  }

  void Early(int rounds, size_t bytes) {
    for (int i = 0; i < rounds; ++i) {
      char* memory = Allocate(bytes);
      if (place_.rank != 0) usleep(static_cast<useconds_t>(kLateSeconds * 1e6));
      Post(memory, bytes);
      const double start = Now();
      CUDA_OK(cudaFree(memory));
      if (i == 0 && place_.rank == 0) Say("freed", Now() - start);
      Check();
    }
  }

  void FreeOnSignal(size_t bytes) {
    char* memory = Allocate(bytes);
    Post(memory, bytes);
    Check();
    Say("ready", 0);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    int signal = 0;
    sigwait(&signals, &signal);
    const double start = Now();
    CUDA_OK(cudaFree(memory));
    Say("freed", Now() - start);
    std::fflush(stdout);
    _exit(0);  // the daemon may be gone
  }

  void End() {
    CUDA_OK(cudaFree(result_));
    CUDA_OK(cudaStreamDestroy(stream_));
    NCCL_OK(ncclCommDestroy(comm_));
  }

 private:
  const JobPlace place_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  float* result_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: allocation_churn MODE ROUNDS BYTES\n");
    return 2;
  }
  const std::string mode = argv[1];
  const int rounds = std::atoi(argv[2]);
  const auto bytes = static_cast<size_t>(std::atoll(argv[3]));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // inherited by all later threads
  const JobPlace place = ReadJobPlace();
  Churn churn(place, ExchangeUniqueId(place));
  if (mode == "seen") churn.Rounds(rounds, bytes, [](void* memory) { CUDA_OK(cudaFree(memory)); });
  if (mode == "unseen") churn.Rounds(rounds, bytes, &FreeUnseen);
  if (mode == "nccl") churn.Nccl(rounds, bytes);
  if (mode == "registered") churn.Registered(rounds, bytes);
  if (mode == "left") churn.Left(rounds, bytes);
  if (mode == "early") churn.Early(rounds, bytes);
  if (mode == "on_signal") churn.FreeOnSignal(bytes);
  churn.End();
  std::printf("done\n");
  return 0;
}
