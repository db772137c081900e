// The division of one operation as plain numbers: what Geometry (geometry.h) computes once per
// operation, and what it answers about rounds and slices. Also for GPU kernels.
#ifndef MCCS_ALGORITHMS_DIVISION_H_
#define MCCS_ALGORITHMS_DIVISION_H_

#include <cstddef>
#include <cstdint>

#include "base/portable.h"

namespace mccs {

// A run of elements within a block.
struct Extent {
  uint64_t begin = 0;  // elements from the start of the block
  uint64_t count = 0;
};

// Parts or entries [begin, end).
struct IndexRange {
  size_t begin = 0;
  size_t end = 0;
  MCCS_HOST_DEVICE size_t size() const { return end - begin; }
};

// The entries of some of `parts` parts, in a list of `size` entries.
MCCS_HOST_DEVICE inline IndexRange PartEntries(const IndexRange& range, size_t size,
                                               int32_t parts) {
  const auto all = static_cast<size_t>(parts);
  if (range.size() == all) return {0, size};
  const size_t each = (size + all - 1) / all;
  return {Least(size, range.begin * each), Least(size, range.end * each)};
}

// `total` elements in blocks of equal size; the last blocks may be short or empty.
struct Division {
  uint64_t total = 0;
  uint64_t block_elements = 0;
  uint64_t channel_elements = 0;  // per block and channel
  uint64_t slice_elements = 0;
  uint64_t parts = 1;
  uint64_t round_parts = 1;  // in a round
  uint64_t turns = 1;        // rounds for all parts

  // As in Geometry.
  MCCS_HOST_DEVICE uint64_t BlockOffset(int32_t block) const {
    return static_cast<uint64_t>(block) * block_elements;
  }
  MCCS_HOST_DEVICE uint64_t BlockLength(int32_t block) const {
    const uint64_t offset = BlockOffset(block);
    return offset < total ? Least(block_elements, total - offset) : 0;
  }
  MCCS_HOST_DEVICE uint64_t Slices(int32_t channel) const {
    const uint64_t begin = static_cast<uint64_t>(channel) * channel_elements;
    const uint64_t longest = BlockLength(0);
    if (begin >= longest) return 0;
    const uint64_t share = Least(channel_elements, longest - begin);
    return share / slice_elements + (share % slice_elements != 0);
  }
  MCCS_HOST_DEVICE uint64_t Rounds(int32_t channel) const { return Slices(channel) * turns; }
  MCCS_HOST_DEVICE uint64_t SliceOf(uint64_t round) const {
    return turns == 1 ? round : round / turns;
  }
  MCCS_HOST_DEVICE IndexRange Parts(uint64_t round) const {
    const uint64_t begin = turns == 1 ? 0 : round % turns * round_parts;
    return {begin, Least(parts, begin + round_parts)};
  }
  MCCS_HOST_DEVICE Extent Slice(int32_t channel, uint64_t round, int32_t block) const {
    const uint64_t share = static_cast<uint64_t>(channel) * channel_elements;
    const uint64_t begin = share + SliceOf(round) * slice_elements;
    const uint64_t end =
        Least(Least(begin + slice_elements, share + channel_elements), BlockLength(block));
    return {begin, end > begin ? end - begin : 0};
  }
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_DIVISION_H_
