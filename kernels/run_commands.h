// The work of the kernel wire::kRunCommandsKernel: it takes commands from a queue until the done
// word is reached. The same source runs on a GPU (run_commands.cu) and, for tests, by threads of
// the host.
//
// Block b of a grid runs programs b, b + blocks, … of a command, one after the other. Channels are
// in the same order on all hosts, so this order cannot deadlock. Blocks that have no program help
// others with large combines (block_words.h). The kernel may have up to kMaxBlocks blocks; all have
// to be on the GPU at once.
//
// A block first copies into its memory what a program reads again and again: the command; then
// ProgramRun and Binding; then program and lanes. Each of these three is one access, by all
// threads. The state of the program is there, too. What does not fit is used where it is, which is
// slow: each step then reads memory of the host several times, one after the other.
//
// `Block` stands for the threads of one block; all of them call everything together:
//   uint32_t index(), blocks()         in the grid
//   Team team()                        this thread among those of the block
//   void Sync()
//   bool Holds(condition)              the value that thread 0 computes, for all threads
//   void Pause()                       between two polls
//   BlockMemory& memory()              shared by the threads
//   unsigned char* arena(), uint32_t arena_bytes()   the same; aligned to kCopyBytes
#ifndef MCCS_KERNELS_RUN_COMMANDS_H_
#define MCCS_KERNELS_RUN_COMMANDS_H_

#include <cstdint>

#include "base/portable.h"
#include "kernels/block_words.h"
#include "kernels/bound_program.h"
#include "kernels/commands.h"
#include "kernels/interpreter.h"
#include "kernels/memory_access.h"
#include "kernels/words.h"

namespace mccs::kernels {

struct BlockMemory {
  Command command;
  alignas(kCopyBytes) ProgramRun run;
  Operands operands;
  bool published, done;  // as two threads have seen them
};

// The end of a kernel or of its commands, in words of the host: each look crosses the bus.
struct EndWords {
  const CommandQueue* queue;
  const uint64_t* done;
  uint64_t target;

  MCCS_HOST_DEVICE bool Done() const { return static_cast<int64_t>(LoadWord(done) - target) >= 0; }
  // No command is to be completed any more.
  MCCS_HOST_DEVICE bool Ended() const { return LoadWord(&queue->stopped) != 0 || Done(); }
};

inline constexpr uint32_t kPollsPerLook = 64;

// A wait that ends when the commands end.
template <typename Block>
class Wait {
 public:
  MCCS_HOST_DEVICE Wait(const Block& block, const EndWords& end) : block_(block), end_(end) {}
  // After a poll that found nothing. False: the commands have ended.
  MCCS_HOST_DEVICE bool Continues() {
    if (++polls_ % kPollsPerLook == 0 && block_.Holds([&] { return end_.Ended(); })) return false;
    block_.Pause();
    return true;
  }

 private:
  const Block& block_;
  const EndWords& end_;
  uint32_t polls_ = 0;
};

// ---- Copies -------------------------------------------------------------------------------------

// All threads copy `bytes` bytes, and then synchronize. REQUIRES: multiples of kCopyBytes.
template <typename Block>
MCCS_HOST_DEVICE void CopyIn(const Block& block, const void* from, uint32_t bytes, void* to) {
  static_assert(sizeof(Word<kCopyBytes>) == kCopyBytes);
  constexpr uint32_t kTogether = 4;
  const Team team = block.team();
  const auto* source = static_cast<const unsigned char*>(from);
  auto* words = static_cast<Word<kCopyBytes>*>(to);
  const uint32_t count = bytes / kCopyBytes;
  for (uint32_t i = team.index; i < count; i += kTogether * team.threads) {
    Word<kCopyBytes> together[kTogether] = {};
    MCCS_UNROLL for (uint32_t j = 0; j < kTogether; ++j) {
      const uint32_t at = i + j * team.threads;
      if (at < count) together[j] = LoadWord<kCopyBytes>(source + at * kCopyBytes);
    }
    MCCS_UNROLL for (uint32_t j = 0; j < kTogether; ++j) {
      const uint32_t at = i + j * team.threads;
      if (at < count) words[at] = together[j];
    }
  }
}

// The memory of a block, given out from the start.
template <typename Block>
class Arena {
 public:
  MCCS_HOST_DEVICE explicit Arena(const Block& block) : block_(block) {}

  // Null: it does not fit.
  MCCS_HOST_DEVICE unsigned char* Take(uint64_t bytes) {
    if (bytes > block_.arena_bytes() - used_) return nullptr;
    unsigned char* const at = block_.arena() + used_;
    used_ += CopiedBytes(bytes);
    if (used_ > block_.arena_bytes()) used_ = block_.arena_bytes();
    return at;
  }
  // The address of a copy, or of the original if there is no room. The caller synchronizes.
  MCCS_HOST_DEVICE uint64_t Copy(uint64_t from, uint64_t bytes) {
    unsigned char* const to = Take(bytes);
    if (to == nullptr) return from;
    CopyIn(block_, BoundProgram::At<const void>(from), static_cast<uint32_t>(bytes), to);
    return reinterpret_cast<uint64_t>(to);
  }

 private:
  const Block& block_;
  uint32_t used_ = 0;
};

// A program and its values, as near to the block as possible.
struct LoadedProgram {
  ProgramRun run;
  const Binding* binding;
};

template <typename Block>
MCCS_HOST_DEVICE LoadedProgram LoadProgram(const Block& block, const Command& command,
                                           uint32_t program) {
  block.Sync();  // all have finished with the memory before
  Arena<Block> arena(block);
  const auto* runs = BoundProgram::At<const ProgramRun>(command.runs);
  CopyIn(block, &runs[program], sizeof(ProgramRun), &block.memory().run);
  const uint64_t binding = arena.Copy(command.binding, command.binding_bytes);
  block.Sync();
  LoadedProgram loaded{block.memory().run, BoundProgram::At<const Binding>(binding)};
  ProgramRun& run = loaded.run;
  const uint64_t image = arena.Copy(run.image, run.bytes);
  block.Sync();
  run.sends += image - run.image;
  run.receives += image - run.image;
  run.image = image;
  const uint32_t state_bytes = BoundProgram::At<const ProgramImage>(image)->state_bytes;
  if (unsigned char* const state = arena.Take(state_bytes); state != nullptr)
    run.state = reinterpret_cast<uint64_t>(state);
  return loaded;
}

// ---- Programs -----------------------------------------------------------------------------------

// The threads of a program's first block, as its interpreter sees them.
template <typename Block>
class FirstBlock {
 public:
  MCCS_HOST_DEVICE FirstBlock(const Block& block, const EndWords& end, BlockWords::Program& words,
                              uint32_t helpers)
      : operands(&block.memory().operands),
        block_(&block),
        end_(&end),
        words_(&words),
        helpers_(helpers) {}

  MCCS_HOST_DEVICE bool leader() const { return team().index == 0; }
  MCCS_HOST_DEVICE Team team() const { return block_->team(); }
  MCCS_HOST_DEVICE void Sync() const { block_->Sync(); }
  template <typename F>
  MCCS_HOST_DEVICE bool Holds(const F& condition) const {
    return block_->Holds(condition);
  }

  // The leader has seen all that the step waits for.
  MCCS_HOST_DEVICE Team BeginCombines(uint64_t bytes_moved) {
    const Team own = team();
    if (helpers_ == 0 || bytes_moved < kLargeStepBytes) return own;
    ++begun_;
    if (leader()) StoreBlockWord(&words_->begun, begun_);
    return {own.index, own.threads * (1 + helpers_)};
  }
  MCCS_HOST_DEVICE void EndCombines(uint64_t bytes_moved) {
    if (helpers_ == 0 || bytes_moved < kLargeStepBytes) return;
    const uint64_t target = begun_ * helpers_;
    Wait<Block> wait(*block_, *end_);
    while (!Holds([&] { return LoadBlockWord(&words_->ended) >= target; })) {
      if (!wait.Continues()) return;
    }
  }

  Operands* operands;

 private:
  const Block* block_;
  const EndWords* end_;
  BlockWords::Program* words_;
  uint32_t helpers_;
  uint64_t begun_ = 0;
};

// False: the commands have ended.
template <typename Block>
MCCS_HOST_DEVICE bool RunProgram(const Block& block, const EndWords& end, const Command& command,
                                 uint32_t program, BlockWords& words) {
  const LoadedProgram loaded = LoadProgram(block, command, program);
  const uint32_t helpers = Helpers(block.blocks(), command.programs, program);
  const FirstBlock<Block> threads(block, end, words.programs[program % kMaxBlocks], helpers);
  Interpreter<FirstBlock<Block>> interpreter(threads, loaded.run, *loaded.binding);
  Wait<Block> wait(block, end);
  for (;;) {
    const Progress progress = interpreter.Advance();
    if (progress == Progress::kDone) return true;
    if (progress == Progress::kBlocked && !wait.Continues()) return false;
  }
}

// The operands of a helper, and the threads that share them.
template <typename Block>
struct HelperBlock {
  const Block& block;
  Operands* operands;
  MCCS_HOST_DEVICE Team team() const { return block.team(); }
  MCCS_HOST_DEVICE void Sync() const { block.Sync(); }
};

// Does this block's share of the program's large combines. `helper`: its number, from 0.
template <typename Block>
MCCS_HOST_DEVICE void HelpProgram(const Block& block, const EndWords& end, const Command& command,
                                  uint32_t number, uint32_t helper, BlockWords& block_words) {
  const LoadedProgram loaded = LoadProgram(block, command, number);
  const BoundProgram program(loaded.run, *loaded.binding);
  const HelperBlock<Block> threads{block, &block.memory().operands};
  BlockWords::Program& words = block_words.programs[number];
  const Team own = block.team();
  const Team team{(1 + helper) * own.threads + own.index,
                  own.threads * (1 + Helpers(block.blocks(), command.programs, number))};
  uint64_t begun = 0;
  for (ImageCursor cursor = program.Steps(); !cursor.done(); cursor.Advance()) {
    const StepInstance at = cursor.current();
    const StepEntry& step = program.image().StepAt(at.step);
    if (step.type != StepType::kCombine) continue;
    if (program.BytesMoved(step, at.round) < kLargeStepBytes) continue;
    ++begun;
    Wait<Block> wait(block, end);
    while (!block.Holds([&] { return LoadBlockWord(&words.begun) >= begun; })) {
      if (!wait.Continues()) return;
    }
    program.RunCombines(step, at.round, threads, team);
    block.Sync();
    if (own.index == 0) IncrementBlockWord(&words.ended);
  }
}

// ---- Copies of messages ----

// This block's share of the command's copies.
template <typename Block>
MCCS_HOST_DEVICE void RunCopies(const Block& block, const Command& command) {
  const Team own = block.team();
  const Team team{block.index() * own.threads + own.index, block.blocks() * own.threads};
  Operands& operands = block.memory().operands;
  for (uint32_t i = 0; i < command.copies && i < kMostCopies; ++i) {
    const CopyRun& copy = command.copy[i];
    block.Sync();  // all have finished with the operands before
    if (own.index == 0) {
      operands.sources[0] =
          Source{BoundProgram::At<const unsigned char>(copy.from), 0, nullptr, false};
      operands.destinations[0] = BoundProgram::At<unsigned char>(copy.to);
    }
    block.Sync();
    Combine(ElementOp{DataType::kInt8, ReduceOp::kSum, false, 1}, operands.sources, 1,
            operands.destinations, 1, copy.bytes, team);
  }
}

// ---- Commands -----------------------------------------------------------------------------------

// Waits for command `number`. False: the done word is reached. Two threads look at the two words at
// the same time.
template <typename Block>
MCCS_HOST_DEVICE bool AwaitCommand(const Block& block, const EndWords& end, uint64_t number) {
  const Team team = block.team();
  BlockMemory& memory = block.memory();
  for (;;) {
    if (team.index == 0) memory.published = LoadWord(&end.queue->published) > number;
    if (team.index == team.threads / 2) memory.done = end.Done();
    block.Sync();
    const bool published = memory.published, done = memory.done;
    block.Sync();
    if (published) return true;
    if (done) return false;
    block.Pause();
  }
}

// Loads the command. False: it is not this kernel's, because the done word was reached before the
// command was published. The word is read again for that, at the same time as the command. Stopped
// commands belong to every kernel, also to one that begins after its communicator has ended.
template <typename Block>
MCCS_HOST_DEVICE bool TakeCommand(const Block& block, const EndWords& end, uint64_t number) {
  const Team team = block.team();
  BlockMemory& memory = block.memory();
  CopyIn(block, &end.queue->commands[number % kQueueCommands], sizeof(Command), &memory.command);
  if (team.index == team.threads / 2)
    memory.done = end.Done() && LoadWord(&end.queue->stopped) == 0;
  block.Sync();
  const bool done = memory.done;
  block.Sync();
  return !done;
}

template <typename Block>
MCCS_HOST_DEVICE void RunCommand(const Block& block, const EndWords& end, BlockWords& words) {
  const Command& command = block.memory().command;
  RunCopies(block, command);
  for (uint32_t p = block.index(); p < command.programs; p += block.blocks()) {
    if (!RunProgram(block, end, command, p, words)) return;
  }
  if (block.index() < command.programs || command.programs == 0) return;
  HelpProgram(block, end, command, block.index() % command.programs,
              block.index() / command.programs - 1, words);
}

// The last block reports the command, after all memory is free again. The others wait for it, so
// that no block is ahead by two. False: the done word is reached, perhaps before other blocks saw
// the command; then nothing more is reported.
template <typename Block>
MCCS_HOST_DEVICE bool FinishCommand(const Block& block, const EndWords& end, CommandQueue& queue,
                                    uint64_t number, BlockWords& words) {
  block.Sync();
  if (block.team().index == 0 && IncrementBlockWord(&words.arrived) == block.blocks()) {
    for (BlockWords::Program& program : words.programs) program = {};
    words.arrived = 0;
    StoreWord(&queue.finished, number + 1);
  }
  for (uint32_t polls = 1; !block.Holds([&] { return LoadWord(&queue.finished) > number; });
       ++polls) {
    if (polls % kPollsPerLook == 0 && block.Holds([&] { return end.Done(); })) return false;
    block.Pause();
  }
  return true;
}

template <typename Block>
MCCS_HOST_DEVICE void RunCommands(const Block& block, CommandQueue& queue, BlockWords& words,
                                  const uint64_t* done, uint64_t target) {
  const EndWords end{&queue, done, target};
  uint64_t number = LoadWord(&queue.finished);
  while (AwaitCommand(block, end, number)) {
    if (!TakeCommand(block, end, number)) return;
    RunCommand(block, end, words);
    if (!FinishCommand(block, end, queue, number, words)) return;
    ++number;
  }
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_RUN_COMMANDS_H_
