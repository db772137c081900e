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
// THREAD: those of `Threads`, all together. Never blocks, except in Threads::Sync.
#ifndef MCCS_KERNELS_INTERPRETER_H_
#define MCCS_KERNELS_INTERPRETER_H_

#include <cstdint>

#include "base/portable.h"
#include "kernels/commands.h"
#include "kernels/elements.h"
#include "kernels/program.h"
#include "kernels/words.h"

namespace mccs::kernels {

inline constexpr uint32_t kMaxSources = 140;       // as kMaxMemOpSources
inline constexpr uint32_t kMaxDestinations = 132;  // 128 local ranks, staging slots

// The operands of one combine. On a GPU in memory that the threads share.
struct Operands {
  Source sources[kMaxSources];
  unsigned char* destinations[kMaxDestinations];
  uint32_t destination_count;
};

// State of a lane during an operation. Slots' flags follow those of all receive lanes.
struct SendState {
  uint64_t first;  // number of the operation's first slice
  uint64_t posted;
};
struct ReceiveState {
  uint64_t first;
  uint64_t writable;
  uint64_t released;
  ImageCursor opening;  // at slice `writable`
};
constexpr uint32_t StateBytes(uint32_t sends, uint32_t receives, uint32_t slots) {
  return static_cast<uint32_t>(sends * sizeof(SendState) + receives * sizeof(ReceiveState)) +
         receives * slots;
}

// One thread of the host. A GPU's are in run_commands.cu.
struct OneThread {
  explicit OneThread(Operands& shared) : operands(&shared) {}
  bool leader() const { return true; }
  Team team() const { return {0, 1}; }
  void Sync() const {}
  // The value that the leader computes, for all threads.
  template <typename F>
  bool Holds(const F& condition) const {
    return condition();
  }
  Operands* operands;
};

enum class Progress : uint8_t { kMoved, kBlocked, kDone };

template <typename Threads>
class Interpreter {
 public:
  // LIFETIME: everything that `run` and `binding` name, until Advance has returned kDone.
  MCCS_HOST_DEVICE Interpreter(const Threads& threads, const ProgramRun& run,
                               const Binding& binding)
      : threads_(threads),
        image_(At<const ProgramImage>(run.image)),
        binding_(&binding),
        ranks_(reinterpret_cast<const RankBuffers*>(&binding + 1)),
        send_words_(At<SendWords>(run.send_words)),
        receive_words_(At<ReceiveWords>(run.receive_words)),
        in_slot_(At<const uint8_t>(run.in_slot)),
        staging_(At<const uint64_t>(run.staging)),
        slots_(At<const uint64_t>(run.slots)),
        sends_(At<SendState>(run.state)),
        receives_(reinterpret_cast<ReceiveState*>(sends_ + image_->send_lanes)),
        early_(reinterpret_cast<uint8_t*>(receives_ + image_->receive_lanes)),
        rounds_(binding.division.Rounds(image_->channel)),
        cursor_(ImageSteps(*image_), rounds_, image_->skew) {
    if (threads_.leader()) PrepareLanes();
    threads_.Sync();
    if (threads_.leader()) {
      for (uint32_t lane = 0; lane < image_->receive_lanes; ++lane) Open(lane);
    }
  }

  MCCS_HOST_DEVICE Progress Advance() {
    if (cursor_.done()) return Drain();
    const StepInstance at = cursor_.current();
    const StepEntry& step = image_->StepAt(at.step);
    if (!threads_.Holds([&] { return MayRun(step, at); })) return OpenOpenable();
    switch (step.type) {
      case StepType::kCombine:
        Combine(step, at);
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
  template <typename T>
  MCCS_HOST_DEVICE static T* At(uint64_t address) {
    return reinterpret_cast<T*>(address);
  }

  // ---- The leader's ----

  MCCS_HOST_DEVICE void PrepareLanes() {
    for (uint32_t lane = 0; lane < image_->send_lanes; ++lane) {
      const uint64_t first = LoadWord(&send_words_[lane].posted);
      sends_[lane] = SendState{first, first};
    }
    for (uint32_t lane = 0; lane < image_->receive_lanes; ++lane) {
      const uint64_t first = LoadWord(&receive_words_[lane].released);
      receives_[lane] = ReceiveState{
          first, first, first,
          ImageCursor(ImageSteps(*image_, image_->ReceiveLane(lane).steps), rounds_, image_->skew)};
      for (uint32_t slot = 0; slot < image_->slots; ++slot) early_[lane * image_->slots + slot] = 0;
    }
  }

  MCCS_HOST_DEVICE bool MayRun(const StepEntry& step, const StepInstance& at) const {
    if (!AllFree(step, at.round)) return false;
    if (step.type == StepType::kReceive) {
      return LoadWord(&receive_words_[step.position.lane].landed) > ReceiveNumber(step, at.round);
    }
    const uint16_t* composes = image_->ListAt(step.composes);
    for (uint32_t i = 0; i < step.composes.count; ++i) {
      const StepEntry& send = image_->StepAt(composes[i]);
      if (LoadWord(&send_words_[send.position.lane].acknowledged) + image_->staging_slots <=
          SendNumber(send, at.round)) {
        return false;
      }
    }
    return true;
  }
  // No lane reads the buffers that the step overwrites.
  MCCS_HOST_DEVICE bool AllFree(const StepEntry& step, uint64_t round) const {
    const uint16_t* frees = image_->ListAt(step.frees);
    for (uint32_t i = 0; i < step.frees.count; ++i) {
      const StepEntry& send = image_->StepAt(frees[i]);
      if (LoadWord(&send_words_[send.position.lane].source_free) <= SendNumber(send, round))
        return false;
    }
    return true;
  }

  MCCS_HOST_DEVICE void AfterStep(const StepEntry& step) {
    const uint16_t* opens = image_->ListAt(step.opens);
    for (uint32_t i = 0; i < step.opens.count; ++i) Open(opens[i]);
  }
  // Lets slices land in outputs that are free.
  MCCS_HOST_DEVICE bool Open(uint32_t lane) {
    ReceiveState& state = receives_[lane];
    const LaneEntry& entry = image_->ReceiveLane(lane);
    const uint64_t before = state.writable;
    if (entry.all_open != 0) {
      state.writable = state.first + rounds_ * entry.steps.count;
    } else {
      for (; !state.opening.done(); state.opening.Advance(), ++state.writable) {
        const StepInstance next = state.opening.current();
        const StepEntry& step = image_->StepAt(next.step);
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
    const uint32_t lane = receive.position.lane;
    ReceiveState& state = receives_[lane];
    uint8_t* early = early_ + lane * image_->slots;
    early[ReceiveNumber(receive, round) % image_->slots] = 1;
    const uint64_t before = state.released;
    while (early[state.released % image_->slots] != 0) early[state.released++ % image_->slots] = 0;
    if (state.released != before) StoreWord(&receive_words_[lane].released, state.released);
  }

  // ---- All threads' ----

  // A receive may become open while the program waits, because a send's source became free.
  MCCS_HOST_DEVICE Progress OpenOpenable() {
    const bool opened = threads_.Holds([&] {
      bool any = false;
      for (uint32_t lane = 0; lane < image_->receive_lanes; ++lane) {
        if (image_->ReceiveLane(lane).all_open == 0) any |= Open(lane);
      }
      return any;
    });
    return opened ? Progress::kMoved : Progress::kBlocked;
  }

  // The lanes have read the buffers.
  MCCS_HOST_DEVICE Progress Drain() {
    const bool drained = threads_.Holds([&] {
      for (uint32_t lane = 0; lane < image_->send_lanes; ++lane) {
        if (image_->SendLane(lane).buffers == 0) continue;
        if (LoadWord(&send_words_[lane].source_free) < sends_[lane].posted) return false;
      }
      return true;
    });
    return drained ? Progress::kDone : Progress::kBlocked;
  }

  MCCS_HOST_DEVICE void Receive(const StepEntry& step, const StepInstance& at) {
    const uint32_t lane = step.position.lane;
    if (step.in_slot == 0) {
      const uint64_t slot = ReceiveNumber(step, at.round) % image_->slots;
      if (in_slot_[lane * image_->slots + slot] != 0) {
        CopyOut(step, at.round, At<unsigned char>(slots_[lane]) + slot * image_->slot_bytes);
      }
    } else if (step.unread == 0) {
      return;
    }
    threads_.Sync();
    if (threads_.leader()) Release(step, at.round);
  }

  // The slice landed before its output was free.
  MCCS_HOST_DEVICE void CopyOut(const StepEntry& step, uint64_t round, unsigned char* slot) {
    const IndexRange pieces = Taken(round, step.entries.count);
    if (pieces.size() == 0) return;
    const PlaceEntry& first =
        image_->PlacesAt(step.entries.begin)[static_cast<uint32_t>(pieces.begin)];
    const Extent slice = SliceOf(round, first.block);
    const uint64_t elements = slice.count * pieces.size();
    if (elements == 0) return;
    Operands& operands = *threads_.operands;
    if (threads_.leader()) {
      operands.sources[0] = Source{slot, 0, nullptr, false};
      operands.destinations[0] = InBuffer(first, slice);
    }
    threads_.Sync();
    kernels::Combine(ElementOp{binding_->type, ReduceOp::kSum, false, 1}, operands.sources, 1,
                     operands.destinations, 1, elements, threads_.team());
  }

  MCCS_HOST_DEVICE void Combine(const StepEntry& step, const StepInstance& at) {
    const IndexRange taken = Taken(at.round, step.entries.count);
    for (size_t c = taken.begin; c < taken.end; ++c) {
      const CombineEntry& combine =
          image_->CombineAt(step.entries.begin + static_cast<uint32_t>(c));
      const PlaceEntry* places = image_->PlacesAt(combine.first_place);
      const Extent slice = SliceOf(at.round, places[combine.sources].block);
      if (slice.count == 0) continue;
      RunCombine(combine, places, slice, at.round);
    }
    threads_.Sync();
    if (!threads_.leader()) return;
    const uint16_t* releases = image_->ListAt(step.releases);
    for (uint32_t i = 0; i < step.releases.count; ++i)
      Release(image_->StepAt(releases[i]), at.round);
  }

  MCCS_HOST_DEVICE void RunCombine(const CombineEntry& combine, const PlaceEntry* places,
                                   const Extent& slice, uint64_t round) {
    const bool divides = combine.finish != 0 && binding_->divides != 0;
    Operands& operands = *threads_.operands;
    threads_.Sync();  // all have finished with the operands before
    if (threads_.leader()) {
      for (uint32_t i = 0; i < combine.sources; ++i)
        operands.sources[i] = SourceAt(places[i], slice, round);
      // A copy of a place onto itself is omitted.
      const bool copies = combine.sources == 1 && !operands.sources[0].scaled && !divides;
      uint32_t count = 0;
      for (uint32_t i = 0; i < combine.destinations; ++i) {
        unsigned char* const address = Address(places[combine.sources + i], slice, round);
        if (!copies || address != operands.sources[0].address)
          operands.destinations[count++] = address;
      }
      operands.destination_count = count;
    }
    threads_.Sync();
    if (operands.destination_count == 0) return;
    kernels::Combine(ElementOp{binding_->type, binding_->op, divides, binding_->divisor},
                     operands.sources, combine.sources, operands.destinations,
                     operands.destination_count, slice.count, threads_.team());
  }

  // ---- Numbers and addresses ----

  MCCS_HOST_DEVICE uint64_t ReceiveNumber(const StepEntry& step, uint64_t round) const {
    return receives_[step.position.lane].first +
           Number(step, image_->ReceiveLane(step.position.lane), round);
  }
  MCCS_HOST_DEVICE uint64_t SendNumber(const StepEntry& step, uint64_t round) const {
    return sends_[step.position.lane].first +
           Number(step, image_->SendLane(step.position.lane), round);
  }
  MCCS_HOST_DEVICE uint64_t Number(const StepEntry& step, const LaneEntry& lane,
                                   uint64_t round) const {
    return SliceIndex(step.position, lane.steps.count, GroupOf(round, rounds_, image_->skew),
                      round);
  }
  MCCS_HOST_DEVICE IndexRange Taken(uint64_t round, uint32_t size) const {
    return PartEntries(binding_->division.Parts(round), size, image_->parts);
  }
  MCCS_HOST_DEVICE Extent SliceOf(uint64_t round, int32_t block) const {
    return binding_->division.Slice(image_->channel, round, block);
  }

  MCCS_HOST_DEVICE Source SourceAt(const PlaceEntry& place, const Extent& slice, uint64_t round) {
    Source source{Address(place, slice, round), 0, nullptr, false};
    if (image_->reduces != 0 && place.space == PlaceSpace::kInput) {
      const RankBuffers& rank = ranks_[place.index];
      source.scaled = rank.scaled != 0;
      source.scale_bits = rank.scale_bits;
      source.scale_address = At<const unsigned char>(rank.scale_address);
    }
    return source;
  }
  MCCS_HOST_DEVICE unsigned char* InBuffer(const PlaceEntry& place, const Extent& slice) const {
    const bool input = place.space == PlaceSpace::kInput;
    const bool blocked = input ? image_->input_blocked != 0 : image_->output_blocked != 0;
    const uint64_t block = blocked ? binding_->division.BlockOffset(place.block) : 0;
    const RankBuffers& rank = ranks_[place.index];
    return At<unsigned char>(input ? rank.input : rank.output) +
           (block + slice.begin) * binding_->element_bytes;
  }
  // Slices of all places of a combine have the same length and begin.
  MCCS_HOST_DEVICE unsigned char* Address(const PlaceEntry& place, const Extent& slice,
                                          uint64_t round) const {
    if (place.space == PlaceSpace::kInput || place.space == PlaceSpace::kOutput)
      return InBuffer(place, slice);
    const StepEntry& step = image_->StepAt(place.index);
    const uint32_t lane = step.position.lane;
    const bool received = place.space == PlaceSpace::kReceived;
    const uint64_t slot = received ? ReceiveNumber(step, round) % image_->slots
                                   : SendNumber(step, round) % image_->staging_slots;
    // Only blocks of the same length share a slot.
    const uint64_t before = place.piece - Taken(round, step.entries.count).begin;
    return At<unsigned char>(received ? slots_[lane] : staging_[lane]) + slot * image_->slot_bytes +
           before * slice.count * binding_->element_bytes;
  }

  Threads threads_;
  const ProgramImage* image_;
  const Binding* binding_;
  const RankBuffers* ranks_;
  SendWords* send_words_;
  ReceiveWords* receive_words_;
  const uint8_t* in_slot_;
  const uint64_t* staging_;
  const uint64_t* slots_;
  SendState* sends_;
  ReceiveState* receives_;
  uint8_t* early_;
  uint64_t rounds_;
  ImageCursor cursor_;  // of all steps
};

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_INTERPRETER_H_
