#include "service/device/slice_memory.h"

namespace mccs {

// Several pieces are successive blocks, each of them whole.
RegionSpan SliceMemory::InBuffer(uint64_t round, const Step& step) const {
  const IndexRange pieces = Entries(round, step.pieces.size());
  if (pieces.size() == 0) return {};
  const Place& first = step.pieces[pieces.begin];
  Extent slice = SliceOf(round, first.block);
  slice.count *= pieces.size();
  return InBuffer(first, slice);
}

uint64_t SliceMemory::SliceBytes(uint64_t round, const Step& step) const {
  const IndexRange pieces = Entries(round, step.pieces.size());
  if (pieces.size() == 0) return 0;
  return pieces.size() * Bytes(SliceOf(round, step.pieces[pieces.begin].block));
}

}  // namespace mccs
