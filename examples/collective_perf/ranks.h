// The ranks of this process, each with its GPU, stream and buffers.
#ifndef EXAMPLES_COLLECTIVE_PERF_RANKS_H_
#define EXAMPLES_COLLECTIVE_PERF_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda_runtime.h"
#include "nccl.h"
#include "rendezvous.h"

namespace collective_perf {

struct LocalRank {
  int rank = 0;
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  void* figure = nullptr;  // 8 bytes, for values that all ranks combine
};

// LIFETIME: communicators, streams and buffers end with the object. Any failure ends the program.
class Ranks {
 public:
  // Joins all ranks of the job: blocks until all have joined. Each buffer has `buffer_bytes`.
  Ranks(const JobPlace& place, int gpus_per_process, size_t buffer_bytes);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int size() const { return size_; }
  bool prints() const { return local_.front().rank == 0; }
  std::vector<LocalRank>& local() { return local_; }

  // Returns when all work posted on the local streams is complete.
  void Synchronize();

  // Combines one value of each process over all processes. Collective.
  uint64_t Sum(uint64_t of_this_process);
  double Max(double of_this_process);

 private:
  void CombineFigures(const void* own, const void* others, ncclDataType_t type, ncclRedOp_t op,
                      void* result);

  int size_;
  std::vector<LocalRank> local_;
};

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_RANKS_H_
