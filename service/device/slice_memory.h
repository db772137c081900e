// The memory of a program's slices in one operation.
#ifndef MCCS_SERVICE_DEVICE_SLICE_MEMORY_H_
#define MCCS_SERVICE_DEVICE_SLICE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "algorithms/plan.h"
#include "service/device/device_plan.h"

namespace mccs {

// A value; cheap to copy. LIFETIME: the plan and the binding outlive it.
class SliceMemory {
 public:
  SliceMemory() = default;
  SliceMemory(const Plan& plan, const Program& program, const OperationBinding& binding)
      : plan_(&plan),
        binding_(&binding),
        channel_(program.channel),
        element_bytes_(SizeOf(binding.type)) {}

  // The slice of a block in a round.
  Extent SliceOf(uint64_t round, int32_t block) const {
    return binding_->geometry->Slice(channel_, round, block);
  }
  bool IsWhole(const Extent& slice, int32_t block) const {
    return slice.count == binding_->geometry->BlockLength(block);
  }
  uint64_t Bytes(const Extent& slice) const { return slice.count * element_bytes_; }
  // The entries of a list that a round takes.
  IndexRange Entries(uint64_t round, size_t size) const {
    return PartEntries(binding_->geometry->Parts(round), size, plan_->parts);
  }

  // The slice in a kInput or kOutput; inputs must not be written.
  RegionSpan InBuffer(const Place& place, const Extent& slice) const {
    const bool input = place.space == Space::kInput;
    const bool blocked = input ? plan_->input_blocked : plan_->output_blocked;
    const uint64_t block = blocked ? binding_->geometry->BlockOffset(place.block) : 0;
    const RankMemory& rank = binding_->ranks[place.index];
    return (input ? rank.input : rank.output)
        .Part((block + slice.begin) * element_bytes_, Bytes(slice));
  }
  // The memory of a slice that is sent from a buffer or received into one; empty if it has no
  // elements. REQUIRES: the pieces are places in buffers.
  RegionSpan InBuffer(uint64_t round, const Step& step) const;

  // The offset of a piece in its slot, in bytes. `slice`: of its block. REQUIRES: the round takes
  // the piece.
  uint64_t PieceOffset(uint64_t round, const Step& step, size_t piece, const Extent& slice) const {
    // Only blocks of the same length share a slot.
    return (piece - Entries(round, step.pieces.size()).begin) * Bytes(slice);
  }
  uint64_t SliceBytes(uint64_t round, const Step& step) const;

 private:
  const Plan* plan_ = nullptr;
  const OperationBinding* binding_ = nullptr;
  ChannelId channel_;
  uint64_t element_bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_SLICE_MEMORY_H_
