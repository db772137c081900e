// Where the slices of a plan lie for one count: a pure function of the call's signature and the lane's
// shape, so every host cuts alike.
#ifndef MCCS_ALGORITHMS_GEOMETRY_H_
#define MCCS_ALGORITHMS_GEOMETRY_H_

#include <cstdint>

#include "algorithms/plan.h"

namespace mccs {

// A run of elements within a block.
struct Extent {
  uint64_t begin = 0;  // elements from the start of the block
  uint64_t count = 0;
};

// The cut of one operation. Shapes: `total` elements in `blocks` blocks of `block_elements`; the last blocks
// of an all-reduce may be short or empty.
class Geometry {
 public:
  // `count` as the NCCL call counts (per rank for all-gather and reduce-scatter).
  // REQUIRES: slot_bytes ≥ 64 × plan.max_pieces.
  Geometry(const Plan& plan, DataType type, uint64_t count, uint32_t slot_bytes);

  // Rounds of a channel; 0 when it has nothing to do. The same on every host.
  uint64_t rounds(ChannelId channel) const;
  // What round `round` of `channel` touches in `block`; count 0 when the block is too short.
  Extent Slice(ChannelId channel, uint64_t round, int32_t block) const;
  // Element offset of `block` in a blocked buffer.
  uint64_t BlockOffset(int32_t block) const;
  uint64_t block_elements() const { return block_elements_; }

 private:
  uint64_t total_ = 0;
  uint64_t block_elements_ = 0;
  uint64_t channel_elements_ = 0;  // of a block, per channel
  uint64_t slice_elements_ = 0;
  int32_t channels_ = 1;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_GEOMETRY_H_
