// A job that creates derived communicators, one rank per process: halves by split, all but the last
// rank by shrink, all ranks by scalable init and by a non-blocking split. Checks a sum over each.
// Prints the duration of each creation on this rank.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "check_calls.h"
#include "rendezvous.h"

namespace {

using Clock = std::chrono::steady_clock;

float* device_value = nullptr;
cudaStream_t stream = nullptr;
JobPlace place;

// Sums rank-in-the-job + 1 over the communicator.
void CheckSum(const char* what, ncclComm_t comm, int expected) {
  float value = static_cast<float>(place.rank + 1);
  CUDA_OK(cudaMemcpyAsync(device_value, &value, sizeof(value), cudaMemcpyHostToDevice, stream));
  NCCL_OK(ncclAllReduce(device_value, device_value, 1, ncclFloat32, ncclSum, comm, stream));
  CUDA_OK(cudaMemcpyAsync(&value, device_value, sizeof(value), cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  NCCL_COMM_OK(comm);
  if (static_cast<int>(value) == expected) return;
  std::fprintf(stderr, "%s: wrong sum: %g, expected %d\n", what, value, expected);
  std::exit(1);
}

template <typename Make>
void Timed(const char* what, Make make) {
  const Clock::time_point start = Clock::now();
  make();
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  std::printf("made %s %.3f ms\n", what, took.count());
  std::fflush(stdout);
}

void AwaitReady(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) NCCL_OK(ncclCommGetAsyncError(comm, &state));
  NCCL_COMM_OK(comm);
}

}  // namespace

int main(int argc, char** argv) {
  const int many = argc > 1 ? std::atoi(argv[1]) : 0;
  place = ReadJobPlace();
  const int ranks = place.world_size;
  const ncclUniqueId id = ExchangeUniqueId(place);
  CUDA_OK(cudaSetDevice(place.local_rank));
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&device_value), sizeof(float)));
  const int all = ranks * (ranks + 1) / 2;

  ncclComm_t world = nullptr;
  ncclUniqueId ids[] = {id};
  Timed("init",
        [&] { NCCL_OK(ncclCommInitRankScalable(&world, ranks, place.rank, 1, ids, nullptr)); });
  CheckSum("init", world, all);

  const int half = place.rank % 2;
  ncclComm_t part = nullptr;
  Timed("split", [&] { NCCL_OK(ncclCommSplit(world, half, -place.rank, &part, nullptr)); });
  int of_half = 0;
  for (int r = half; r < ranks; r += 2) of_half += r + 1;
  CheckSum("split", part, of_half);
  int new_rank = -1;
  NCCL_OK(ncclCommUserRank(part, &new_rank));
  if (new_rank != (ranks - 1 - place.rank) / 2) return 1;

  ncclComm_t none = world;
  NCCL_OK(ncclCommSplit(world, place.rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
  if ((none == nullptr) != (place.rank != 0)) return 1;
  NCCL_OK(ncclCommDestroy(none));

  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t waited_for = nullptr;
  NCCL_OK(ncclCommSplit(world, 0, 0, &waited_for, &config));
  AwaitReady(waited_for);
  CheckSum("non-blocking split", waited_for, all);

  std::vector<ncclComm_t> crowd(static_cast<size_t>(many));
  Timed("crowd", [&] {
    for (ncclComm_t& one : crowd) NCCL_OK(ncclCommSplit(world, 0, 0, &one, nullptr));
  });
  for (ncclComm_t one : crowd) CheckSum("one of many", one, all);
  for (ncclComm_t one : crowd) NCCL_OK(ncclCommDestroy(one));

  if (place.rank != ranks - 1) {
    int last[] = {ranks - 1};
    ncclComm_t fewer = nullptr;
    Timed("shrink",
          [&] { NCCL_OK(ncclCommShrink(world, last, 1, &fewer, nullptr, NCCL_SHRINK_DEFAULT)); });
    CheckSum("shrink", fewer, all - ranks);
    NCCL_OK(ncclCommDestroy(fewer));
  }
  for (ncclComm_t comm : {waited_for, part, world}) NCCL_OK(ncclCommDestroy(comm));
  std::printf("toured %d\n", place.rank);
  return 0;
}
