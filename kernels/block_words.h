// Words by which the blocks of one kernel meet, in memory of its GPU.
//
// A program is run by its first block (run_commands.h). The other blocks of the program help with
// large combines: each follows the program by itself, so the words carry no operands.
//
//   first block                                     helpers
//   a large step may run  ── begun + 1 ──────────►  combine their share
//   combines its share
//   goes on               ◄─ ended + 1 of each ───  at the next large step
//
// OWNER: the library in the tenant's process; one for each command queue, because a queue has at
// most one kernel at a time. All words are zero between commands.
#ifndef MCCS_KERNELS_BLOCK_WORDS_H_
#define MCCS_KERNELS_BLOCK_WORDS_H_

#include <cstdint>

#include "base/portable.h"

namespace mccs::kernels {

inline constexpr uint32_t kMaxBlocks = 16;

// A step is large, and helpers take part, if it reads and writes this many bytes. Below, one block
// has all loads in flight at once: 512 threads with 8 words of 16 bytes. Meeting takes several
// accesses to the GPU's second-level cache. An estimate: no GPU has measured it.
inline constexpr uint64_t kLargeStepBytes = 128 << 10;

struct BlockWords {
  // Counts large steps of one program and command. A sector of the cache each.
  struct alignas(32) Program {
    uint64_t begun;
    uint64_t ended;  // summed over the helpers
  };
  alignas(64) uint64_t arrived;              // blocks that have finished the command
  alignas(64) Program programs[kMaxBlocks];  // by program, if it has helpers
};

// Helpers of a program, if the grid has more blocks than the command has programs: block b helps
// with program b % programs.
MCCS_HOST_DEVICE constexpr uint32_t Helpers(uint32_t blocks, uint32_t programs, uint32_t program) {
  return blocks > programs ? (blocks - 1 - program) / programs : 0;
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_BLOCK_WORDS_H_
