#include "service/device/slice_memory.h"

#include "base/check.h"

namespace mccs {

RegionSpan SliceMemory::InBuffer(uint64_t round, const Place& place) const {
  MCCS_CHECK(place.space == Space::kInput || place.space == Space::kOutput);
  const bool input = place.space == Space::kInput;
  const Geometry& geometry = *binding_->geometry;
  const bool blocked = input ? plan_->input_blocked : plan_->output_blocked;
  const uint64_t block = blocked ? geometry.BlockOffset(place.block) : 0;
  const Extent slice = geometry.Slice(channel_, round, place.block);
  const RankMemory& rank = binding_->ranks[place.index];
  return (input ? rank.input : rank.output)
      .Part((block + slice.begin) * element_bytes_, slice.count * element_bytes_);
}

uint64_t SliceMemory::PieceOffset(uint64_t round, const Step& step, size_t piece) const {
  uint64_t elements = 0;
  for (size_t p = 0; p < piece; ++p) elements += Elements(round, step.pieces[p]);
  return elements * element_bytes_;
}

}  // namespace mccs
