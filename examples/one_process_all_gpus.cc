// One process that drives all visible GPUs: ncclCommInitAll, and a group around the calls of all
// ranks. Each rank contributes its rank + 1; every rank must get the sum.
#include <cstdio>
#include <vector>

#include "check_calls.h"

namespace {

constexpr size_t kCount = 1 << 20;
constexpr size_t kBytes = kCount * sizeof(float);

struct Gpu {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* buffer = nullptr;
};

}  // namespace

int main() {
  int gpu_count = 0;
  CUDA_OK(cudaGetDeviceCount(&gpu_count));
  std::vector<ncclComm_t> comms(gpu_count);
  NCCL_OK(ncclCommInitAll(comms.data(), gpu_count, nullptr));

  std::vector<Gpu> gpus(gpu_count);
  for (int rank = 0; rank < gpu_count; ++rank) {
    Gpu& gpu = gpus[rank];
    gpu.comm = comms[rank];
    CUDA_OK(cudaSetDevice(rank));
    CUDA_OK(cudaStreamCreate(&gpu.stream));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&gpu.buffer), kBytes));
    std::vector<float> input(kCount, static_cast<float>(rank + 1));
    CUDA_OK(cudaMemcpy(gpu.buffer, input.data(), kBytes, cudaMemcpyHostToDevice));
  }

  NCCL_OK(ncclGroupStart());
  for (Gpu& gpu : gpus) {
    NCCL_OK(
        ncclAllReduce(gpu.buffer, gpu.buffer, kCount, ncclFloat32, ncclSum, gpu.comm, gpu.stream));
  }
  NCCL_OK(ncclGroupEnd());

  const float expected = static_cast<float>(gpu_count * (gpu_count + 1) / 2);
  size_t wrong = 0;
  for (int rank = 0; rank < gpu_count; ++rank) {
    Gpu& gpu = gpus[rank];
    CUDA_OK(cudaSetDevice(rank));
    CUDA_OK(cudaStreamSynchronize(gpu.stream));
    NCCL_COMM_OK(gpu.comm);
    std::vector<float> output(kCount);
    CUDA_OK(cudaMemcpy(output.data(), gpu.buffer, kBytes, cudaMemcpyDeviceToHost));
    for (float value : output) wrong += value != expected;
  }
  std::printf("%d GPUs in one process: %zu elements each, %zu wrong\n", gpu_count, kCount, wrong);

  for (Gpu& gpu : gpus) {
    CUDA_OK(cudaFree(gpu.buffer));
    CUDA_OK(cudaStreamDestroy(gpu.stream));
    NCCL_OK(ncclCommDestroy(gpu.comm));
  }
  return wrong == 0 ? 0 : 1;
}
