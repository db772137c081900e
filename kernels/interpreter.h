// Runs the program of one channel for one operation, step by step in IssueOrder. The same source
// runs on a GPU, by all threads of a block, and on the host, by one thread.
//
// A step waits for words that the daemon or the peer advances. Advance() then returns without a
// change, so that the host can do other work; a GPU calls it again.
//
//   program (program.h)      what to do, without addresses and counts
//   binding (commands.h)     the buffers and the division of this operation
//   words   (commands.h)     where it meets its lanes; the contract is that of lane_ports.h
//   state                    scratch memory, by lane; valid during the operation
//
// THREAD: those of `Threads`, all together. Never blocks, except in Sync and EndCombines.
#ifndef MCCS_KERNELS_INTERPRETER_H_
#define MCCS_KERNELS_INTERPRETER_H_

#include <cstdint>

#include "base/portable.h"
#include "kernels/bound_program.h"
#include "kernels/commands.h"
#include "kernels/elements.h"
#include "kernels/program.h"
#include "kernels/words.h"

namespace mccs::kernels {

// State of a lane during an operation. Slots' flags follow those of all receive lanes.
struct SendState {
  uint64_t posted;
};
struct ReceiveState {
  uint64_t writable;
  uint64_t released;
  ImageCursor opening;  // at slice `writable`
};
constexpr uint32_t StateBytes(uint32_t sends, uint32_t receives, uint32_t slots) {
  return static_cast<uint32_t>(sends * sizeof(SendState) + receives * sizeof(ReceiveState)) +
         receives * slots;
}

// One thread of the host. The threads of a block are in run_commands.h.
struct OneThread {
  explicit OneThread(Operands& shared) : operands(&shared) {}
  bool leader() const { return true; }
  // Those that share `operands`.
  Team team() const { return {0, 1}; }
  void Sync() const {}
  // The value that the leader computes, for all threads.
  template <typename F>
  bool Holds(const F& condition) const {
    return condition();
  }
  // Around the combines of a step, which read and write this many bytes: the threads that execute
  // them, and the wait for all of these. False: the operation has ended before.
  Team BeginCombines(uint64_t /*bytes_moved*/) { return team(); }
  bool EndCombines(uint64_t /*bytes_moved*/) { return true; }
  Operands* operands;
};

enum class Progress : uint8_t { kMoved, kBlocked, kDone, kEnded };

template <typename Threads>
class Interpreter {
 public:
  // LIFETIME: everything that `run` and `binding` name, until Advance has returned kDone.
  MCCS_HOST_DEVICE Interpreter(const Threads& threads, const ProgramRun& run,
                               const Binding& binding)
      : threads_(threads),
        program_(run, binding),
        send_words_(BoundProgram::At<SendWords>(run.send_words)),
        receive_words_(BoundProgram::At<ReceiveWords>(run.receive_words)),
        in_slot_(BoundProgram::At<const uint8_t>(run.in_slot)),
        sends_(BoundProgram::At<SendState>(run.state)),
        receives_(reinterpret_cast<ReceiveState*>(sends_ + image().send_lanes)),
        early_(reinterpret_cast<uint8_t*>(receives_ + image().receive_lanes)),
        cursor_(program_.Steps()) {
    PrepareLanes();
    threads_.Sync();
  }

  MCCS_HOST_DEVICE Progress Advance() {
    if (cursor_.done()) return Drain();
    const StepInstance at = cursor_.current();
    const StepEntry& step = image().StepAt(at.step);
    if (!threads_.Holds([&] { return MayRun(step, at); })) return OpenOpenable();
    switch (step.type) {
      case StepType::kCombine:
        if (!Combine(step, at)) return Progress::kEnded;
        break;
      case StepType::kSend:
        if (threads_.leader()) {
          StoreWord(&send_words_[step.position.lane].posted, ++sends_[step.position.lane].posted);
        }
        break;
      case StepType::kReceive:
        Receive(step, at);
        break;
    }
    cursor_.Advance();
    if (threads_.leader()) AfterStep(step);
    return Progress::kMoved;
  }

 private:
  MCCS_HOST_DEVICE const ProgramImage& image() const { return program_.image(); }

  // ---- The leader's ----

  MCCS_HOST_DEVICE bool MayRun(const StepEntry& step, const StepInstance& at) const {
    if (!AllFree(step, at.round)) return false;
    if (step.type == StepType::kReceive) {
      return LoadWord(&receive_words_[step.position.lane].landed) >
             program_.ReceiveNumber(step, at.round);
    }
    const uint16_t* composes = image().ListAt(step.composes);
    for (uint32_t i = 0; i < step.composes.count; ++i) {
      const StepEntry& send = image().StepAt(composes[i]);
      if (LoadWord(&send_words_[send.position.lane].acknowledged) + image().staging_slots <=
          program_.SendNumber(send, at.round)) {
        return false;
      }
    }
    return true;
  }
  // No lane reads the buffers that the step overwrites.
  MCCS_HOST_DEVICE bool AllFree(const StepEntry& step, uint64_t round) const {
    const uint16_t* frees = image().ListAt(step.frees);
    for (uint32_t i = 0; i < step.frees.count; ++i) {
      const StepEntry& send = image().StepAt(frees[i]);
      if (LoadWord(&send_words_[send.position.lane].source_free) <=
          program_.SendNumber(send, round)) {
        return false;
      }
    }
    return true;
  }

  MCCS_HOST_DEVICE void AfterStep(const StepEntry& step) {
    const uint16_t* opens = image().ListAt(step.opens);
    for (uint32_t i = 0; i < step.opens.count; ++i) Open(opens[i]);
  }
  // Lets slices land in outputs that are free.
  MCCS_HOST_DEVICE bool Open(uint32_t lane) {
    ReceiveState& state = receives_[lane];
    const LaneEntry& entry = image().ReceiveLane(lane);
    const uint64_t before = state.writable;
    if (entry.all_open != 0) {
      state.writable = program_.FirstReceive(lane) + program_.rounds() * entry.steps.count;
    } else {
      for (; !state.opening.done(); state.opening.Advance(), ++state.writable) {
        const StepInstance next = state.opening.current();
        const StepEntry& step = image().StepAt(next.step);
        if (step.in_slot != 0) continue;
        if (step.opens_after != kNoStep && !cursor_.Passed(next.round, step.opens_after)) break;
        if (!AllFree(step, next.round)) break;
      }
    }
    if (state.writable == before) return false;
    StoreWord(&receive_words_[lane].writable, state.writable);
    return true;
  }

  MCCS_HOST_DEVICE void Release(const StepEntry& receive, uint64_t round) {
    const uint32_t lane = receive.position.lane, slots = image().slots;
    ReceiveState& state = receives_[lane];
    uint8_t* early = early_ + lane * slots;
    early[program_.ReceiveNumber(receive, round) % slots] = 1;
    const uint64_t before = state.released;
    while (early[state.released % slots] != 0) early[state.released++ % slots] = 0;
    if (state.released != before) StoreWord(&receive_words_[lane].released, state.released);
  }

  // ---- All threads' ----

  // Each lane by one thread.
  MCCS_HOST_DEVICE void PrepareLanes() {
    const Team team = threads_.team();
    for (uint32_t lane = team.index; lane < image().send_lanes; lane += team.threads)
      sends_[lane] = SendState{program_.FirstSend(lane)};
    for (uint32_t lane = team.index; lane < image().receive_lanes; lane += team.threads) {
      const uint64_t first = program_.FirstReceive(lane);
      receives_[lane] = ReceiveState{first, first, program_.Steps(image().ReceiveLane(lane))};
      for (uint32_t slot = 0; slot < image().slots; ++slot) early_[lane * image().slots + slot] = 0;
      Open(lane);
    }
  }

  // A receive may become open while the program waits, because a send's source became free.
  MCCS_HOST_DEVICE Progress OpenOpenable() {
    const bool opened = threads_.Holds([&] {
      bool any = false;
      for (uint32_t lane = 0; lane < image().receive_lanes; ++lane) {
        if (image().ReceiveLane(lane).all_open == 0) any |= Open(lane);
      }
      return any;
    });
    return opened ? Progress::kMoved : Progress::kBlocked;
  }

  // The lanes have read the buffers.
  MCCS_HOST_DEVICE Progress Drain() {
    const bool drained = threads_.Holds([&] {
      for (uint32_t lane = 0; lane < image().send_lanes; ++lane) {
        if (image().SendLane(lane).buffers == 0) continue;
        if (LoadWord(&send_words_[lane].source_free) < sends_[lane].posted) return false;
      }
      return true;
    });
    return drained ? Progress::kDone : Progress::kBlocked;
  }

  MCCS_HOST_DEVICE void Receive(const StepEntry& step, const StepInstance& at) {
    if (step.in_slot == 0) {
      // The slice landed before its output was free.
      const uint64_t slot = program_.ReceiveNumber(step, at.round) % image().slots;
      if (in_slot_[step.position.lane * image().slots + slot] != 0)
        program_.CopyOut(step, at.round, threads_);
    } else if (step.unread == 0) {
      return;
    }
    threads_.Sync();
    if (threads_.leader()) Release(step, at.round);
  }

  // False: the operation has ended, and other threads' shares are missing.
  MCCS_HOST_DEVICE bool Combine(const StepEntry& step, const StepInstance& at) {
    const uint64_t bytes = program_.BytesMoved(step, at.round);
    program_.RunCombines(step, at.round, threads_, threads_.BeginCombines(bytes));
    threads_.Sync();
    if (!threads_.EndCombines(bytes)) return false;
    if (!threads_.leader()) return true;
    const uint16_t* releases = image().ListAt(step.releases);
    for (uint32_t i = 0; i < step.releases.count; ++i)
      Release(image().StepAt(releases[i]), at.round);
    return true;
  }

  Threads threads_;
  BoundProgram program_;
  SendWords* send_words_;
  ReceiveWords* receive_words_;
  const uint8_t* in_slot_;
  SendState* sends_;
  ReceiveState* receives_;
  uint8_t* early_;
  ImageCursor cursor_;  // of all steps
};

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_INTERPRETER_H_
