#include "collective_perf/ranks.h"

#include <algorithm>

#include "check_calls.h"

namespace collective_perf {
namespace {

constexpr size_t kFigureBytes = 8;
static_assert(sizeof(uint64_t) == kFigureBytes && sizeof(double) == kFigureBytes);

}  // namespace

Ranks::Ranks(const JobPlace& place, int gpus_per_process, size_t buffer_bytes)
    : size_(place.world_size * gpus_per_process), local_(gpus_per_process) {
  const ncclUniqueId id = ExchangeUniqueId(place);
  int devices = 0;
  CUDA_OK(cudaGetDeviceCount(&devices));
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < gpus_per_process; ++i) {
    LocalRank& self = local_[i];
    self.rank = place.rank * gpus_per_process + i;
    // Ranks share GPUs if there are more; NCCL rejects them unless NCCL_MULTI_RANK_GPU_ENABLE=1.
    self.device = (place.local_rank * gpus_per_process + i) % std::max(devices, 1);
    CUDA_OK(cudaSetDevice(self.device));
    NCCL_OK(ncclCommInitRank(&self.comm, size_, id, self.rank));
  }
  NCCL_OK(ncclGroupEnd());

  size_t bytes = std::max<size_t>(buffer_bytes, 1);
  for (LocalRank& self : local_) {
    CUDA_OK(cudaSetDevice(self.device));
    CUDA_OK(cudaStreamCreateWithFlags(&self.stream, cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&self.send), bytes));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&self.receive), bytes));
    CUDA_OK(cudaMalloc(&self.figure, kFigureBytes));
  }
}

Ranks::~Ranks() {
  for (LocalRank& self : local_) {
    CUDA_OK(cudaSetDevice(self.device));
    CUDA_OK(cudaFree(self.send));
    CUDA_OK(cudaFree(self.receive));
    CUDA_OK(cudaFree(self.figure));
    CUDA_OK(cudaStreamDestroy(self.stream));
    NCCL_OK(ncclCommDestroy(self.comm));
  }
}

void Ranks::Synchronize() {
  for (LocalRank& self : local_) {
    CUDA_OK(cudaStreamSynchronize(self.stream));
    NCCL_COMM_OK(self.comm);
  }
}

uint64_t Ranks::Sum(uint64_t of_this_process) {
  uint64_t neutral = 0;
  uint64_t result;
  CombineFigures(&of_this_process, &neutral, ncclUint64, ncclSum, &result);
  return result;
}

double Ranks::Max(double of_this_process) {
  double result;
  CombineFigures(&of_this_process, &of_this_process, ncclFloat64, ncclMax, &result);
  return result;
}

// The first local rank contributes `own`, the others contribute `others`.
void Ranks::CombineFigures(const void* own, const void* others, ncclDataType_t type, ncclRedOp_t op,
                           void* result) {
  for (LocalRank& self : local_) {
    CUDA_OK(cudaMemcpyAsync(self.figure, &self == &local_.front() ? own : others, kFigureBytes,
                            cudaMemcpyHostToDevice, self.stream));
  }
  NCCL_OK(ncclGroupStart());
  for (LocalRank& self : local_) {
    NCCL_OK(ncclAllReduce(self.figure, self.figure, 1, type, op, self.comm, self.stream));
  }
  NCCL_OK(ncclGroupEnd());
  Synchronize();
  LocalRank& first = local_.front();
  CUDA_OK(
      cudaMemcpyAsync(result, first.figure, kFigureBytes, cudaMemcpyDeviceToHost, first.stream));
  CUDA_OK(cudaStreamSynchronize(first.stream));
}

}  // namespace collective_perf
