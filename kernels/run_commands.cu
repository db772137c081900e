// The kernel wire::kRunCommandsKernel: takes commands from a queue until the done word is reached.
//
// Block b of the grid runs programs b, b + gridDim, … of a command, one after the other. Channels
// are in the same order on all hosts, so this order cannot deadlock. The kernel may have any number
// of blocks.
#include "kernels/commands.h"
#include "kernels/interpreter.h"
#include "kernels/words.h"

namespace mccs::kernels {
namespace {

constexpr int kMaxThreads = 512;  // the limit of Combine
// Each poll crosses the bus to host memory, in about a microsecond.
constexpr unsigned kPollIntervalNs = 100;

// All threads of a block.
class Block {
 public:
  __device__ explicit Block(Operands& shared) : operands(&shared) {}
  __device__ bool leader() const { return threadIdx.x == 0; }
  __device__ Team team() const { return {threadIdx.x, blockDim.x}; }
  __device__ void Sync() const { __syncthreads(); }
  template <typename F>
  __device__ bool Holds(const F& condition) const {
    return __syncthreads_or(leader() && condition()) != 0;
  }
  Operands* operands;
};

enum class Next { kCommand, kEnd };

__device__ Next AwaitCommand(const Block& block, const CommandQueue& queue, uint64_t number,
                             const uint64_t* done, uint64_t target) {
  for (;;) {
    if (block.Holds([&] { return static_cast<int64_t>(LoadWord(done) - target) >= 0; }))
      return Next::kEnd;
    if (block.Holds([&] { return LoadWord(&queue.published) > number; })) return Next::kCommand;
    __nanosleep(kPollIntervalNs);
  }
}

__device__ bool Stopped(const Block& block, const CommandQueue& queue) {
  return block.Holds([&] { return LoadWord(&queue.stopped) != 0; });
}

__device__ void RunPrograms(const Block& block, const CommandQueue& queue,
                            const Command& command) {
  const auto* binding = reinterpret_cast<const Binding*>(command.binding);
  const auto* runs = reinterpret_cast<const ProgramRun*>(command.runs);
  for (uint32_t p = blockIdx.x; p < command.programs; p += gridDim.x) {
    if (Stopped(block, queue)) return;
    Interpreter<Block> program(block, runs[p], *binding);
    for (Progress progress = Progress::kMoved; progress != Progress::kDone;) {
      progress = program.Advance();
      if (progress != Progress::kBlocked) continue;
      if (Stopped(block, queue)) return;
      __nanosleep(kPollIntervalNs);
    }
  }
}

// The last block reports the command. The others wait for it, so that no block is ahead by two.
__device__ void Finish(const Block& block, CommandQueue& queue, uint64_t number) {
  block.Sync();
  if (block.leader()) {
    __threadfence_system();
    if (atomicAdd(reinterpret_cast<unsigned long long*>(&queue.arrived), 1ULL) + 1 == gridDim.x) {
      queue.arrived = 0;
      StoreWord(&queue.finished, number + 1);
    }
  }
  while (!block.Holds([&] { return LoadWord(&queue.finished) > number; }))
    __nanosleep(kPollIntervalNs);
}

}  // namespace
}  // namespace mccs::kernels

extern "C" __global__ void __launch_bounds__(mccs::kernels::kMaxThreads)
    mccs_run_commands(mccs::kernels::CommandQueue* queue, const uint64_t* done, uint64_t target) {
  using namespace mccs::kernels;
  __shared__ Operands operands;
  const Block block(operands);
  for (uint64_t number = LoadWord(&queue->finished);
       AwaitCommand(block, *queue, number, done, target) == Next::kCommand; ++number) {
    RunPrograms(block, *queue, queue->commands[number % kQueueCommands]);
    Finish(block, *queue, number);
  }
}
