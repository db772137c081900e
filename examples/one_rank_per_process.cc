// The usual form of a training job: one process per GPU, started by torchrun or a similar launcher.
// Each rank contributes its rank + 1; every rank must get the sum.
#include <cstdio>
#include <vector>

#include "check_calls.h"
#include "rendezvous.h"

int main() {
  constexpr size_t kCount = 1 << 20;
  const JobPlace place = ReadJobPlace();
  const ncclUniqueId id = ExchangeUniqueId(place);

  CUDA_OK(cudaSetDevice(place.local_rank));
  ncclComm_t comm = nullptr;
  NCCL_OK(ncclCommInitRank(&comm, place.world_size, id, place.rank));
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreate(&stream));

  std::vector<float> host(kCount, static_cast<float>(place.rank + 1));
  float* send = nullptr;
  float* receive = nullptr;
  CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&send), kCount * sizeof(float)));
  CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&receive), kCount * sizeof(float)));
  CUDA_OK(
      cudaMemcpyAsync(send, host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream));

  NCCL_OK(ncclAllReduce(send, receive, kCount, ncclFloat32, ncclSum, comm, stream));

  CUDA_OK(cudaMemcpyAsync(host.data(), receive, kCount * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  NCCL_COMM_OK(comm);

  const float expected = static_cast<float>(place.world_size * (place.world_size + 1) / 2);
  size_t wrong = 0;
  for (float value : host) wrong += value != expected;
  std::printf("rank %d of %d: %zu elements, each %g, %zu wrong\n", place.rank, place.world_size,
              kCount, expected, wrong);

  CUDA_OK(cudaFree(send));
  CUDA_OK(cudaFree(receive));
  CUDA_OK(cudaStreamDestroy(stream));
  NCCL_OK(ncclCommDestroy(comm));
  return wrong == 0 ? 0 : 1;
}
