// The kernel wire::kRunCommandsKernel (run_commands.h) for GPUs.
#include "kernels/block_words.h"
#include "kernels/commands.h"
#include "kernels/run_commands.h"

namespace mccs::kernels {
namespace {

constexpr int kMaxThreads = 512;  // the limit of Combine
// Each poll crosses the bus to host memory, in about a microsecond.
constexpr unsigned kPollIntervalNs = 100;
// With BlockMemory less than 48 KiB, which every GPU has without a request at the launch.
constexpr uint32_t kArenaBytes = 40 << 10;
static_assert(sizeof(BlockMemory) + kArenaBytes <= 48 << 10);

class Block {
 public:
  __device__ Block(BlockMemory& memory, unsigned char* arena) : memory_(memory), arena_(arena) {}
  __device__ uint32_t index() const { return blockIdx.x; }
  __device__ uint32_t blocks() const { return gridDim.x; }
  __device__ Team team() const { return {threadIdx.x, blockDim.x}; }
  __device__ void Sync() const { __syncthreads(); }
  template <typename F>
  __device__ bool Holds(const F& condition) const {
    return __syncthreads_or(threadIdx.x == 0 && condition()) != 0;
  }
  __device__ bool Any(bool value) const { return __syncthreads_or(value) != 0; }
  __device__ void Pause() const { __nanosleep(kPollIntervalNs); }
  __device__ BlockMemory& memory() const { return memory_; }
  __device__ unsigned char* arena() const { return arena_; }
  __device__ uint32_t arena_bytes() const { return kArenaBytes; }

 private:
  BlockMemory& memory_;
  unsigned char* const arena_;
};

}  // namespace
}  // namespace mccs::kernels

// One block per multiprocessor: without the 1 the compiler leaves room for two, with half the
// registers.
extern "C" __global__ void __launch_bounds__(mccs::kernels::kMaxThreads, 1)
    mccs_run_commands(mccs::kernels::CommandQueue* queue, mccs::kernels::BlockWords* words,
                      const uint64_t* done, uint64_t target) {
  using namespace mccs::kernels;
  __shared__ BlockMemory memory;
  __shared__ alignas(kCopyBytes) unsigned char arena[kArenaBytes];
  RunCommands(Block(memory, arena), *queue, *words, done, target);
}
