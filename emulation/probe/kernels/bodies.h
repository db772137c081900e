// The bodies of the probe's kernels, once for the GPU and for the emulation's host versions.
//
// `Machine` is the hardware that they use: loads that acquire and stores that release for the whole
// system, time, and the threads of a block. All words have 64 bits.
#ifndef MCCS_EMULATION_PROBE_KERNELS_BODIES_H_
#define MCCS_EMULATION_PROBE_KERNELS_BODIES_H_

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define PROBE_BODY __device__ inline
#else
#define PROBE_BODY inline
#endif

namespace mccs::probe {

// Ends every kernel that waits for a counter, whatever its target is.
constexpr uint64_t kStop = uint64_t{1} << 62;

// The data word at position `i` in a round.
#if defined(__CUDACC__)
__host__ __device__
#endif
    constexpr uint64_t
    Pattern(uint64_t round, uint64_t i) {
  return round << 32 | i;
}

// Waits until the counter has reached the target. Returns false if it is kStop.
template <typename Machine>
PROBE_BODY bool AwaitCounter(const uint64_t* counter, uint64_t target, uint64_t pause_ns) {
  for (;;) {
    const uint64_t seen = Machine::Load(counter);
    if (seen == kStop) return false;
    if (static_cast<int64_t>(seen - target) >= 0) return true;
    Machine::Pause(pause_ns);
  }
}

// Spins until `word` has reached the target. Stores 1 to `started`, then counts in `heartbeat`.
template <typename Machine>
PROBE_BODY void Spin(const uint64_t* word, uint64_t target, uint64_t* started,
                     uint64_t* heartbeat) {
  if (Machine::Thread() != 0) return;
  Machine::Store(started, 1);
  uint64_t beats = 0;
  while (static_cast<int64_t>(Machine::Load(word) - target) < 0) {
    Machine::Store(heartbeat, ++beats);
    Machine::Pause(200);
  }
}

// The exchange of one channel. In each round waits for `counter`, checks the data at `from`, copies
// it to `to`, then advances `done`. Ends after `rounds`, or early at kStop. `*errors`: threads that
// have read a wrong word, stored before `done`. REQUIRES: one block.
//
// All writers of data write upwards, and all readers check downwards: a counter that comes too
// early is then seen before the words that are checked first.
template <typename Machine>
PROBE_BODY void Copy(const uint64_t* counter, const uint64_t* from, uint64_t* to, uint64_t words,
                     uint64_t* done, uint64_t rounds, uint64_t* errors) {
  bool wrong = false;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const bool first = Machine::Thread() == 0;
    if (!Machine::Any(first && AwaitCounter<Machine>(counter, round, 0))) break;
    for (uint64_t i = Machine::Thread(); i < words; i += Machine::Threads()) {
      wrong |= from[words - 1 - i] != Pattern(round, words - 1 - i);
    }
    for (uint64_t i = Machine::Thread(); i < words; i += Machine::Threads()) to[i] = from[i];
    const uint64_t threads = Machine::Count(wrong);  // a barrier, too
    if (first && threads != 0) Machine::Store(errors, threads);
    if (first) Machine::Store(done, round);
  }
}

// Answers `command` with `reply`, `rounds` times.
template <typename Machine>
PROBE_BODY void Echo(const uint64_t* command, uint64_t* reply, uint64_t rounds, uint64_t pause_ns) {
  if (Machine::Thread() != 0) return;
  for (uint64_t round = 1; round <= rounds; ++round) {
    if (!AwaitCounter<Machine>(command, round, pause_ns)) return;
    Machine::Store(reply, round);
  }
}

// Each block reports its arrival twice, and waits until all blocks of all launches have arrived or
// `stop` is not 0. `arrived` (GPU memory) and `reported` (for the host) have a word for each block.
template <typename Machine>
PROBE_BODY void Meet(uint64_t* arrived, uint64_t* reported, const uint64_t* stop,
                     uint64_t first_block, uint64_t blocks) {
  if (Machine::Thread() == 0) {
    const uint64_t block = first_block + Machine::Block();
    Machine::Store(arrived + block, 1);
    Machine::Store(reported + block, 1);
    for (uint64_t i = 0; i < blocks; ++i) {
      while (Machine::Load(arrived + i) == 0 && Machine::Load(stop) == 0) Machine::Pause(1000);
    }
  }
  Machine::Barrier();  // the block's other threads occupy their places until then
}

// One replay of a graph: takes the next number, waits for the command with this number.
template <typename Machine>
PROBE_BODY void Step(uint64_t* replays, const uint64_t* command, uint64_t* done) {
  if (Machine::Thread() != 0) return;
  const uint64_t number = Machine::Load(replays) + 1;
  if (!AwaitCounter<Machine>(command, number, 0)) return;
  Machine::Store(replays, number);
  Machine::Store(done, number);
}

template <typename Machine>
PROBE_BODY void Mark(uint64_t* word, uint64_t value) {
  if (Machine::Thread() == 0) Machine::Store(word, value);
}

// A fixed amount of arithmetic, of which each step depends on the one before.
template <typename Machine>
PROBE_BODY void Work(uint64_t steps, uint64_t* result) {
  if (Machine::Thread() != 0) return;
  uint64_t value = steps;
  for (uint64_t i = 0; i < steps; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
  Machine::Store(result, value);
}

// Watches the clock for `duration_ns`. Stores the longest time between two looks, and the number
// and the sum of those above 0.1 ms: the kernel did not run then.
template <typename Machine>
PROBE_BODY void Pauses(uint64_t duration_ns, uint64_t* longest, uint64_t* count, uint64_t* sum) {
  if (Machine::Thread() != 0) return;
  uint64_t longest_ns = 0;
  uint64_t pauses = 0;
  uint64_t sum_ns = 0;
  const uint64_t start = Machine::NowNs();
  for (uint64_t last = start; last - start < duration_ns;) {
    const uint64_t now = Machine::NowNs();
    const uint64_t pause = now - last;
    if (pause > longest_ns) longest_ns = pause;
    if (pause > 100'000) {
      ++pauses;
      sum_ns += pause;
    }
    last = now;
  }
  Machine::Store(longest, longest_ns);
  Machine::Store(count, pauses);
  Machine::Store(sum, sum_ns);
}

struct alignas(16) Unit {
  uint64_t low;
  uint64_t high;
};

// Copies as fast as the memory allows, with all threads of all blocks.
template <typename Machine>
PROBE_BODY void Stream(const Unit* __restrict__ from, Unit* __restrict__ to, uint64_t units) {
  const uint64_t threads = uint64_t{Machine::Threads()} * Machine::Blocks();
  const uint64_t first = uint64_t{Machine::Threads()} * Machine::Block() + Machine::Thread();
  for (uint64_t i = first; i < units; i += threads) to[i] = from[i];
}

// Kernels of no work, for the cost of launches by their arguments.
template <size_t kBytes>
struct ArgumentBytes {
  unsigned char bytes[kBytes];
};

}  // namespace mccs::probe

#endif  // MCCS_EMULATION_PROBE_KERNELS_BODIES_H_
