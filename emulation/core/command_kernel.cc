#include "emulation/core/command_kernel.h"

#include <cstdint>
#include <iterator>

#include "kernels/block_words.h"
#include "kernels/host_kernel.h"
#include "kernels/words.h"
#include "proto/fence_page.h"

namespace mccs::emulation {
namespace {

// Slices until other work of the process has its turn.
constexpr int kMovesAtOnce = 4;

struct Run {
  kernels::CommandQueue& queue;
  const uint64_t* done;
  uint64_t target;
  kernels::HostKernel kernel{queue, target};
};

void* Begin(const MccsEmulatedLaunch*, void* const* arguments) {
  return new Run{.queue = **static_cast<kernels::CommandQueue* const*>(arguments[0]),
                 .done = *static_cast<const uint64_t* const*>(arguments[2]),
                 .target = *static_cast<const uint64_t*>(arguments[3])};
}

int Advance(void* state, MccsEmulatedWait* wait) {
  Run& run = *static_cast<Run*>(state);
  for (int i = 0; i < kMovesAtOnce; ++i) {
    // The bell rings after what the kernel looks at below has changed.
    const uint64_t bell = kernels::LoadWord(&run.queue.bell);
    if (static_cast<int64_t>(kernels::LoadWord(run.done) - run.target) >= 0) {
      // As the kernel on a GPU: commands that were stopped before it began count as finished.
      if (kernels::LoadWord(&run.queue.stopped) != 0) run.kernel.Advance();
      return MCCS_EMULATED_FINISHED;
    }
    if (run.kernel.Advance()) continue;
    *wait = {.word = &run.queue.bell, .value = bell + 1};
    return MCCS_EMULATED_WAITING;
  }
  return MCCS_EMULATED_AGAIN;
}

void End(void* state) { delete static_cast<Run*>(state); }

// The second, the words of blocks, is for GPUs: here one thread runs all.
constexpr uint32_t kArgumentBytes[] = {sizeof(kernels::CommandQueue*), sizeof(kernels::BlockWords*),
                                       sizeof(uint64_t*), sizeof(uint64_t)};

}  // namespace

MccsEmulatedResumableKernel CommandKernel() {
  return {.struct_bytes = sizeof(MccsEmulatedResumableKernel),
          .name = wire::kRunCommandsKernel,
          .begin = Begin,
          .advance = Advance,
          .end = End,
          .argument_count = static_cast<uint32_t>(std::size(kArgumentBytes)),
          .argument_bytes = kArgumentBytes,
          .blocking = 0};
}

}  // namespace mccs::emulation
