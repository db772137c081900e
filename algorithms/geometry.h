// Where the slices of a plan lie for one count: a pure function of the call's signature and the
// lane's shape, so every host cuts alike.
//
// Blocks of a buffer that is cut (all-reduce, trees), the channels' shares of a block and the
// slices begin at multiples of 64 bytes from the start of what they are cut from: a cache line, and
// every vector of every element type, belongs to one of them only. The last block, share and slice
// take what is left, which may be nothing: a tiny buffer is all in block 0.
//
// How long a slice is. At most what a slot holds of each piece (one host: kLocalSliceBytes, so that
// the operands of a combine stay in a core's second-level cache and several workers share a large
// buffer, and slot_bytes if that is less). Shorter, if need be, so that a channel has kAimedRounds
// rounds: while the first slice fills the pipeline, or the last leaves it, hops wait; with n rounds
// that is about 1/n of the time. But not below kMinSliceBytes for all pieces together, where the
// fixed cost of a slice (some µs on a socket) is no longer small beside its transfer: a block is
// shared by as many channels as get a slice of that length each. Slices of a channel are equally
// long but for the last, so no dwarf ends the row.
#ifndef MCCS_ALGORITHMS_GEOMETRY_H_
#define MCCS_ALGORITHMS_GEOMETRY_H_

#include <cstdint>

#include "algorithms/plan.h"

namespace mccs {

inline constexpr uint64_t kCutBytes = 64;
inline constexpr uint64_t kAimedRounds = 8;
inline constexpr uint64_t kMinSliceBytes = 32 << 10;
inline constexpr uint64_t kLocalSliceBytes = 256 << 10;

// A run of elements within a block.
struct Extent {
  uint64_t begin = 0;  // elements from the start of the block
  uint64_t count = 0;
};

// The cut of one operation: `total` elements in blocks of block_elements(), the last ones of an
// all-reduce short or empty. A cheap value, without allocation.
class Geometry {
 public:
  // `count` as the NCCL call counts (per rank for all-gather and reduce-scatter).
  // REQUIRES: slot_bytes ≥ 64 × plan.max_pieces; the bytes of all blocks together < 2^63.
  Geometry(const Plan& plan, DataType type, uint64_t count, uint32_t slot_bytes);

  // Rounds of a channel; 0 when it has nothing to do. The same on every host.
  uint64_t rounds(ChannelId channel) const;
  // What round `round` of `channel` touches in `block`; count 0 when the block is too short.
  Extent Slice(ChannelId channel, uint64_t round, int32_t block) const;
  // Element offset of `block` in a blocked buffer.
  uint64_t BlockOffset(int32_t block) const;
  // Elements of `block`.
  uint64_t BlockLength(int32_t block) const;
  // Elements from one block to the next.
  uint64_t block_elements() const { return block_elements_; }

 private:
  uint64_t total_ = 0;
  uint64_t block_elements_ = 0;
  uint64_t channel_elements_ = 0;  // of a block, per channel
  uint64_t slice_elements_ = 0;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_GEOMETRY_H_
