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

  uint64_t Elements(uint64_t round, const Place& place) const {
    return binding_->geometry->Slice(channel_, round, place.block).count;
  }
  uint64_t Bytes(uint64_t round, const Place& place) const {
    return Elements(round, place) * element_bytes_;
  }

  // The memory of a kInput or kOutput; inputs must not be written.
  RegionSpan InBuffer(uint64_t round, const Place& place) const;

  // The offset of a piece in its slot, in bytes. `piece` = pieces.size(): the slice's length.
  uint64_t PieceOffset(uint64_t round, const Step& step, size_t piece) const;
  uint64_t SliceBytes(uint64_t round, const Step& step) const {
    return PieceOffset(round, step, step.pieces.size());
  }

 private:
  const Plan* plan_ = nullptr;
  const OperationBinding* binding_ = nullptr;
  ChannelId channel_;
  uint64_t element_bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_SLICE_MEMORY_H_
