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
// slow: each step then reads host memory several times, one after the other. A kernel of one block
// looks for short commands, too: they come with all of this.
//
// `Block` stands for the threads of one block; all of them call everything together:
//   uint32_t index(), blocks()         in the grid
//   Team team()                        this thread among those of the block
//   void Sync()
//   bool Holds(condition)              the value that thread 0 computes, for all threads
//   bool Any(value)                    whether it is true in any thread; after it all have called
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
#include "kernels/low_latency.h"
#include "kernels/memory_access.h"
#include "kernels/words.h"

namespace mccs::kernels {

struct BlockMemory {
  Command command;
  alignas(kCopyBytes) ProgramRun run;
  Operands operands;
  uint64_t number;                // of the next command
  bool published, done, stopped;  // as some threads have seen them
  uint32_t short_lines;           // of a short command; 0: none
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

// All threads copy `bytes` bytes. The caller synchronizes. REQUIRES: multiples of kCopyBytes.
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
  MCCS_HOST_DEVICE explicit Arena(const Block& block, uint32_t used = 0)
      : block_(block), used_(used) {}

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
  uint32_t used_;
};

// A program and its values, as near to the block as possible.
struct LoadedProgram {
  ProgramRun run;
  const Binding* binding;

  // Program and lanes were copied to `image`.
  MCCS_HOST_DEVICE void MoveTo(uint64_t image) {
    run.sends += image - run.image;
    run.receives += image - run.image;
    run.image = image;
  }
  template <typename Block>
  MCCS_HOST_DEVICE void PlaceState(Arena<Block>& arena) {
    const uint32_t bytes = BoundProgram::At<const ProgramImage>(run.image)->state_bytes;
    if (unsigned char* const state = arena.Take(bytes); state != nullptr)
      run.state = reinterpret_cast<uint64_t>(state);
  }
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
  loaded.MoveTo(arena.Copy(loaded.run.image, loaded.run.bytes));
  block.Sync();
  loaded.PlaceState(arena);
  return loaded;
}

// The program of a short command, which is at the start of the arena.
template <typename Block>
MCCS_HOST_DEVICE LoadedProgram ShortProgram(const Block& block) {
  const auto& command = *reinterpret_cast<const ShortCommand*>(block.arena());
  const uint64_t binding = reinterpret_cast<uint64_t>(&command + 1);
  LoadedProgram loaded{command.run, BoundProgram::At<const Binding>(binding)};
  loaded.MoveTo(binding + command.binding_bytes);
  Arena<Block> arena(block, CopiedBytes(command.bytes));
  loaded.PlaceState(arena);
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
  MCCS_HOST_DEVICE bool EndCombines(uint64_t bytes_moved) {
    if (helpers_ == 0 || bytes_moved < kLargeStepBytes) return true;
    const uint64_t target = begun_ * helpers_;
    Wait<Block> wait(*block_, *end_);
    while (!Holds([&] { return LoadBlockWord(&words_->ended) >= target; })) {
      if (!wait.Continues()) return false;
    }
    return true;
  }

  Operands* operands;

 private:
  const Block* block_;
  const EndWords* end_;
  BlockWords::Program* words_;
  uint32_t helpers_;
  uint64_t begun_ = 0;
};

// `words`: of the program. False: the commands have ended.
template <typename Block>
MCCS_HOST_DEVICE bool RunProgram(const Block& block, const EndWords& end,
                                 const LoadedProgram& loaded, BlockWords::Program& words,
                                 uint32_t helpers) {
  const FirstBlock<Block> threads(block, end, words, helpers);
  Interpreter<FirstBlock<Block>> interpreter(threads, loaded.run, *loaded.binding);
  Wait<Block> wait(block, end);
  for (;;) {
    const Progress progress = interpreter.Advance();
    if (progress == Progress::kDone) return true;
    if (progress == Progress::kEnded) return false;
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

// A kernel looks for the end between pieces of this size: a look costs less than a tenth of one,
// and the stream of a failed communicator is free soon.
inline constexpr uint64_t kCopyPieceBytes = 32 << 20;

// This block's share of the command's copies. False: the commands have ended, and the rest is left.
template <typename Block>
MCCS_HOST_DEVICE bool RunCopies(const Block& block, const EndWords& end, const Command& command) {
  const Team own = block.team();
  const Team team{block.index() * own.threads + own.index, block.blocks() * own.threads};
  Operands& operands = block.memory().operands;
  for (uint32_t i = 0; i < command.copies && i < kMostCopies; ++i) {
    const CopyRun& copy = command.copy[i];
    for (uint64_t at = 0; at < copy.bytes; at += kCopyPieceBytes) {
      if (i + at > 0 && block.Holds([&] { return end.Ended(); })) return false;
      block.Sync();  // all have finished with the operands before
      if (own.index == 0) {
        operands.sources[0] =
            Source{BoundProgram::At<const unsigned char>(copy.from + at), 0, nullptr, false};
        operands.destinations[0] = BoundProgram::At<unsigned char>(copy.to + at);
      }
      block.Sync();
      const uint64_t left = copy.bytes - at;
      Combine(ElementOp{DataType::kInt8, ReduceOp::kSum, false, 1}, operands.sources, 1,
              operands.destinations, 1, left < kCopyPieceBytes ? left : kCopyPieceBytes, team);
    }
  }
  return true;
}

// ---- Commands -----------------------------------------------------------------------------------

// For so many polls a kernel that waits for a command looks for a short one. Each reads twice
// kMostShortBytes over the bus. Most calls begin on all ranks at about the same time; a wait that
// takes longer must not load the bus.
inline constexpr uint32_t kShortPolls = 64;

// One look at the lines of short command `number`: copies those that have arrived to the arena.
// Returns the number of the first one of this thread that is missing. The first line says how many
// there are (BlockMemory::short_lines).
template <typename Block>
MCCS_HOST_DEVICE uint32_t LoadShortLines(const Block& block, const CommandQueue& queue,
                                         uint64_t number) {
  const Team team = block.team();
  uint32_t missing = 0xffffffff;
  for (uint32_t i = team.index; i < LowLatencyLines(kMostShortBytes); i += team.threads) {
    uint64_t data = 0;
    const bool has = LoadLine(&queue.short_command[i], ShortFlag(number), data);
    if (!has && i < missing) missing = i;
    memcpy(block.arena() + i * kLowLatencyLineBytes, &data, sizeof(data));
    if (i == 0) {
      const uint64_t bytes = has ? static_cast<uint32_t>(data) : 0;
      block.memory().short_lines = static_cast<uint32_t>(LowLatencyLines(bytes));
    }
  }
  return missing;
}

enum class Arrival : uint8_t { kCommand, kShortCommand, kNone };

// Waits for command `number`. kNone: the done word is reached, and there is no command. Different
// threads look at the lines and at the two words at the same time.
template <typename Block>
MCCS_HOST_DEVICE Arrival AwaitCommand(const Block& block, const EndWords& end, uint64_t number) {
  const Team team = block.team();
  BlockMemory& memory = block.memory();
  const bool takes_short =
      block.blocks() == 1 && block.arena_bytes() >= kMostShortBytes && ShortFlag(number) != 0;
  for (uint32_t polls = 0;; ++polls) {
    const bool looks = takes_short && polls < kShortPolls;
    const uint32_t missing = looks ? LoadShortLines(block, *end.queue, number) : 0;
    if (team.index == team.threads - 1) memory.published = LoadWord(&end.queue->published) > number;
    if (team.index == team.threads / 2) memory.done = end.Done();
    block.Sync();
    const bool published = memory.published, done = memory.done;
    const bool incomplete = block.Any(!looks || missing < memory.short_lines);
    if (!incomplete && memory.short_lines > 0 &&
        TakesCommand(end.target,
                     reinterpret_cast<const ShortCommand*>(block.arena())->done_value)) {
      AcquireLines();
      return Arrival::kShortCommand;
    }
    block.Sync();
    if (published) return Arrival::kCommand;
    if (done) return Arrival::kNone;
    block.Pause();
  }
}

enum class Taken : uint8_t { kRuns, kStopped, kNotOurs };

// Loads the command. kNotOurs: it is a later kernel's, so the done word is reached.
template <typename Block>
MCCS_HOST_DEVICE Taken TakeCommand(const Block& block, const EndWords& end, uint64_t number) {
  const Team team = block.team();
  BlockMemory& memory = block.memory();
  CopyIn(block, &end.queue->commands[number % kQueueCommands], sizeof(Command), &memory.command);
  if (team.index == team.threads / 2) memory.stopped = LoadWord(&end.queue->stopped) != 0;
  block.Sync();
  const bool stopped = memory.stopped;
  block.Sync();
  if (!TakesCommand(end.target, memory.command.done_value)) return Taken::kNotOurs;
  return stopped ? Taken::kStopped : Taken::kRuns;
}

template <typename Block>
MCCS_HOST_DEVICE void RunCommand(const Block& block, const EndWords& end, BlockWords& words) {
  const Command& command = block.memory().command;
  if (!RunCopies(block, end, command)) return;
  for (uint32_t p = block.index(); p < command.programs; p += block.blocks()) {
    const LoadedProgram loaded = LoadProgram(block, command, p);
    if (!RunProgram(block, end, loaded, words.programs[p % kMaxBlocks],
                    Helpers(block.blocks(), command.programs, p))) {
      return;
    }
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
  if (block.blocks() == 1) return true;
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
  // One thread reads it: an earlier kernel on the queue may just advance it.
  if (block.team().index == 0) block.memory().number = LoadWord(&queue.finished);
  block.Sync();
  uint64_t number = block.memory().number;
  for (Arrival arrival; (arrival = AwaitCommand(block, end, number)) != Arrival::kNone; ++number) {
    if (arrival == Arrival::kShortCommand) {
      RunProgram(block, end, ShortProgram(block), words.programs[0], 0);
    } else {
      const Taken taken = TakeCommand(block, end, number);
      if (taken == Taken::kNotOurs) return;
      if (taken == Taken::kRuns) RunCommand(block, end, words);
    }
    if (!FinishCommand(block, end, queue, number, words)) return;
  }
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_RUN_COMMANDS_H_
