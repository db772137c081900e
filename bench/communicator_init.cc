// Measures ncclCommInitRank on running daemons. An ordinary NCCL program, one process per rank with
// torchrun's variables. Rank 0 prints the median and maximum of its calls in milliseconds; a
// barrier precedes each call.
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

// Broadcasts rank 0's id to all ranks, with a barrier.
class IdBroadcast {
 public:
  explicit IdBroadcast(const JobPlace& place) {
    NCCL_OK(ncclCommInitRank(&comm_, place.world_size, ExchangeUniqueId(place), place.rank));
    CUDA_OK(cudaStreamCreate(&stream_));
    CUDA_OK(cudaMalloc(&buffer_, sizeof(ncclUniqueId)));
  }
  ~IdBroadcast() {
    CUDA_OK(cudaFree(buffer_));
    CUDA_OK(cudaStreamDestroy(stream_));
    NCCL_OK(ncclCommDestroy(comm_));
  }
  IdBroadcast(const IdBroadcast&) = delete;
  IdBroadcast& operator=(const IdBroadcast&) = delete;

  ncclUniqueId Pass(ncclUniqueId id) {
    CUDA_OK(cudaMemcpyAsync(buffer_, &id, sizeof(id), cudaMemcpyHostToDevice, stream_));
    NCCL_OK(ncclBroadcast(buffer_, buffer_, sizeof(id), ncclInt8, 0, comm_, stream_));
    NCCL_OK(ncclAllReduce(buffer_, buffer_, sizeof(id), ncclUint8, ncclMax, comm_, stream_));
    CUDA_OK(cudaMemcpyAsync(&id, buffer_, sizeof(id), cudaMemcpyDeviceToHost, stream_));
    CUDA_OK(cudaStreamSynchronize(stream_));
    return id;
  }

 private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* buffer_ = nullptr;
};

double InitMs(const JobPlace& place, IdBroadcast& broadcast) {
  ncclUniqueId id{};
  if (place.rank == 0) NCCL_OK(ncclGetUniqueId(&id));
  id = broadcast.Pass(id);
  ncclComm_t comm = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  NCCL_OK(ncclCommInitRank(&comm, place.world_size, id, place.rank));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  NCCL_OK(ncclCommDestroy(comm));
  return took.count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures ncclCommInitRank on running daemons: milliseconds of rank 0's calls");
  int iterations = 50;
  app.add_option("iterations", iterations)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const JobPlace place = ReadJobPlace();
  CUDA_OK(cudaSetDevice(place.local_rank));
  IdBroadcast broadcast(place);
  std::vector<double> ms;
  for (int i = 0; i < iterations; ++i) ms.push_back(InitMs(place, broadcast));
  if (place.rank != 0) return 0;
  std::sort(ms.begin(), ms.end());
  std::printf("%d ranks: ncclCommInitRank takes %.2f ms (median of %d), %.2f ms at most\n",
              place.world_size, ms[ms.size() / 2], iterations, ms.back());
  return 0;
}
