// A program with the values of one operation: the numbers of its slices, the addresses of its
// operands, and how threads execute its combines. It knows nothing of progress.
//
// THREAD: any. Never blocks, except in Threads::Sync.
#ifndef MCCS_KERNELS_BOUND_PROGRAM_H_
#define MCCS_KERNELS_BOUND_PROGRAM_H_

#include <cstdint>

#include "base/portable.h"
#include "kernels/commands.h"
#include "kernels/elements.h"
#include "kernels/program.h"

namespace mccs::kernels {

inline constexpr uint32_t kMaxSources = 140;       // as kMaxMemOpSources
inline constexpr uint32_t kMaxDestinations = 132;  // 128 local ranks, staging slots

// The operands of one combine. On a GPU in memory that the threads of a block share.
struct Operands {
  Source sources[kMaxSources];
  unsigned char* destinations[kMaxDestinations];
  uint32_t destination_count;
};

class BoundProgram {
 public:
  // LIFETIME: everything that `run` and `binding` name outlives this, but not `run` itself.
  MCCS_HOST_DEVICE BoundProgram(const ProgramRun& run, const Binding& binding)
      : image_(At<const ProgramImage>(run.image)),
        binding_(&binding),
        sends_(At<const SendRun>(run.sends)),
        receives_(At<const ReceiveRun>(run.receives)),
        rounds_(binding.division.Rounds(image_->channel)) {}

  template <typename T>
  MCCS_HOST_DEVICE static T* At(uint64_t address) {
    return reinterpret_cast<T*>(address);
  }

  MCCS_HOST_DEVICE const ProgramImage& image() const { return *image_; }
  MCCS_HOST_DEVICE uint64_t rounds() const { return rounds_; }
  MCCS_HOST_DEVICE ImageCursor Steps() const {
    return ImageCursor(ImageSteps(*image_), rounds_, image_->skew);
  }
  MCCS_HOST_DEVICE ImageCursor Steps(const LaneEntry& lane) const {
    return ImageCursor(ImageSteps(*image_, lane.steps), rounds_, image_->skew);
  }

  // ---- Numbers ----

  MCCS_HOST_DEVICE uint64_t FirstSend(uint32_t lane) const { return sends_[lane].first; }
  MCCS_HOST_DEVICE uint64_t FirstReceive(uint32_t lane) const { return receives_[lane].first; }
  // Of the slice that a step sends or receives in a round.
  MCCS_HOST_DEVICE uint64_t SendNumber(const StepEntry& step, uint64_t round) const {
    return FirstSend(step.position.lane) +
           Number(step, image_->SendLane(step.position.lane), round);
  }
  MCCS_HOST_DEVICE uint64_t ReceiveNumber(const StepEntry& step, uint64_t round) const {
    return FirstReceive(step.position.lane) +
           Number(step, image_->ReceiveLane(step.position.lane), round);
  }

  // ---- Combines ----

  // Bytes that a combining step reads and writes in a round, if its combines are all like the
  // first one.
  MCCS_HOST_DEVICE uint64_t BytesMoved(const StepEntry& step, uint64_t round) const {
    const IndexRange taken = Taken(round, step.entries.count);
    if (taken.size() == 0) return 0;
    const CombineEntry& first = CombineAt(step, taken.begin);
    return SliceOf(first, round).count * binding_->element_bytes * taken.size() *
           (uint32_t{first.sources} + first.destinations);
  }

  // All threads of `team`, which may be of several blocks, execute the combines of a step.
  // `threads`: those of this block, with their operands. The caller synchronizes them afterwards.
  template <typename Threads>
  MCCS_HOST_DEVICE void RunCombines(const StepEntry& step, uint64_t round, const Threads& threads,
                                    Team team) const {
    const IndexRange taken = Taken(round, step.entries.count);
    for (size_t c = taken.begin; c < taken.end; ++c) {
      const CombineEntry& combine = CombineAt(step, c);
      const Extent slice = SliceOf(combine, round);
      if (slice.count == 0) continue;
      Operands& operands = *threads.operands;
      threads.Sync();  // all have finished with the operands before
      Locate(combine, slice, round, threads.team(), operands);
      threads.Sync();
      if (operands.destination_count == 0) continue;
      Combine(ElementOp{binding_->type, binding_->op, Divides(combine), binding_->divisor},
              operands.sources, combine.sources, operands.destinations, operands.destination_count,
              slice.count, team);
    }
  }

  // All threads of a block copy a received slice out of its slot.
  template <typename Threads>
  MCCS_HOST_DEVICE void CopyOut(const StepEntry& receive, uint64_t round,
                                const Threads& threads) const {
    const IndexRange pieces = Taken(round, receive.entries.count);
    if (pieces.size() == 0) return;
    const PlaceEntry& first =
        image_->PlacesAt(receive.entries.begin)[static_cast<uint32_t>(pieces.begin)];
    const Extent slice = binding_->division.Slice(image_->channel, round, first.block);
    const uint64_t elements = slice.count * pieces.size();
    if (elements == 0) return;
    Operands& operands = *threads.operands;
    if (threads.leader()) {
      const uint64_t slot = ReceiveNumber(receive, round) % image_->slots;
      operands.sources[0] = Source{
          At<unsigned char>(receives_[receive.position.lane].slots) + slot * image_->slot_bytes, 0,
          nullptr, false};
      operands.destinations[0] = InBuffer(first, slice);
    }
    threads.Sync();
    Combine(ElementOp{binding_->type, ReduceOp::kSum, false, 1}, operands.sources, 1,
            operands.destinations, 1, elements, threads.team());
  }

 private:
  MCCS_HOST_DEVICE uint64_t Number(const StepEntry& step, const LaneEntry& lane,
                                   uint64_t round) const {
    return SliceIndex(step.position, lane.steps.count, GroupOf(round, rounds_, image_->skew),
                      round);
  }
  MCCS_HOST_DEVICE IndexRange Taken(uint64_t round, uint32_t size) const {
    return PartEntries(binding_->division.Parts(round), size, image_->parts);
  }
  MCCS_HOST_DEVICE const CombineEntry& CombineAt(const StepEntry& step, size_t entry) const {
    return image_->CombineAt(step.entries.begin + static_cast<uint32_t>(entry));
  }
  // Slices of all places of a combine have the same length and begin.
  MCCS_HOST_DEVICE Extent SliceOf(const CombineEntry& combine, uint64_t round) const {
    const PlaceEntry& destination = image_->PlacesAt(combine.first_place)[combine.sources];
    return binding_->division.Slice(image_->channel, round, destination.block);
  }
  MCCS_HOST_DEVICE bool Divides(const CombineEntry& combine) const {
    return combine.finish != 0 && binding_->divides != 0;
  }

  // The threads of a block share the work: an address takes several slow divisions.
  MCCS_HOST_DEVICE void Locate(const CombineEntry& combine, const Extent& slice, uint64_t round,
                               Team team, Operands& operands) const {
    const PlaceEntry* sources = image_->PlacesAt(combine.first_place);
    const PlaceEntry* destinations = sources + combine.sources;
    if (combine.sources == 1) {
      if (team.index == 0) LocateOne(combine, slice, round, operands);
      return;
    }
    for (uint32_t i = team.index; i < combine.sources; i += team.threads)
      operands.sources[i] = SourceAt(sources[i], slice, round);
    for (uint32_t i = team.index; i < combine.destinations; i += team.threads)
      operands.destinations[i] = Address(destinations[i], slice, round);
    if (team.index == 0) operands.destination_count = combine.destinations;
  }
  // A copy of a place onto itself is omitted.
  MCCS_HOST_DEVICE void LocateOne(const CombineEntry& combine, const Extent& slice, uint64_t round,
                                  Operands& operands) const {
    const PlaceEntry* places = image_->PlacesAt(combine.first_place);
    const Source source = SourceAt(places[0], slice, round);
    operands.sources[0] = source;
    const bool copies = !source.scaled && !Divides(combine);
    uint32_t count = 0;
    for (uint32_t i = 1; i <= combine.destinations; ++i) {
      unsigned char* const address = Address(places[i], slice, round);
      if (!copies || address != source.address) operands.destinations[count++] = address;
    }
    operands.destination_count = count;
  }

  // ---- Addresses ----

  MCCS_HOST_DEVICE const RankBuffers& RankOf(const PlaceEntry& place) const {
    return reinterpret_cast<const RankBuffers*>(binding_ + 1)[place.index];
  }
  MCCS_HOST_DEVICE Source SourceAt(const PlaceEntry& place, const Extent& slice,
                                   uint64_t round) const {
    Source source{Address(place, slice, round), 0, nullptr, false};
    if (image_->reduces != 0 && place.space == PlaceSpace::kInput) {
      const RankBuffers& rank = RankOf(place);
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
    const RankBuffers& rank = RankOf(place);
    return At<unsigned char>(input ? rank.input : rank.output) +
           (block + slice.begin) * binding_->element_bytes;
  }
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
    return At<unsigned char>(received ? receives_[lane].slots : sends_[lane].staging) +
           slot * image_->slot_bytes + before * slice.count * binding_->element_bytes;
  }

  const ProgramImage* image_;
  const Binding* binding_;
  const SendRun* sends_;
  const ReceiveRun* receives_;
  uint64_t rounds_;
};

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_BOUND_PROGRAM_H_
