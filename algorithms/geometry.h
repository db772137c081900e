// The positions of a plan's slices for one count: a pure function of the call's signature and the
// lane's shape, so that all hosts compute the same.
//
// Blocks of a divided buffer (all-reduce, trees), the channels' shares of a block, and the slices
// begin at multiples of 64 bytes from the start of what they divide. So a cache line, and every
// vector of every element type, belongs to only one of them. The last block, share and slice get
// the rest, which may be empty: a tiny buffer is entirely in block 0.
//
// The length of a slice is at most what a slot has room for per piece. (On one host it is
// LocalSlices::most_bytes, or slot_bytes if less: the operands of a combine stay in a core's
// second-level cache, and several workers share a large buffer.) It is shorter if needed for
// kTargetRounds rounds per channel: hops are idle while the first slice fills the pipeline and the
// last one drains it, which with n rounds is about 1/n of the time. All pieces of a slice together
// have at least kMinSliceBytes, because the fixed cost of a slice is some µs on a socket. A small
// block therefore uses fewer channels. All slices of a channel except the last have the same
// length.
//
// A plan of several parts (plan.h) takes them in turn: round r is the slice r / ⌈parts / k⌉ of its
// blocks, in k parts. In a straight plan k is 1. In a packed plan it is what the rules above give
// for whole blocks, all on the first channel: so successive blocks are contiguous.
#ifndef MCCS_ALGORITHMS_GEOMETRY_H_
#define MCCS_ALGORITHMS_GEOMETRY_H_

#include <cstdint>

#include "algorithms/division.h"
#include "algorithms/plan.h"

namespace mccs {

inline constexpr uint64_t kAlignmentBytes = 64;
inline constexpr uint64_t kTargetRounds = 8;
inline constexpr uint64_t kMinSliceBytes = 32 << 10;
inline constexpr uint64_t kLocalSliceBytes = 256 << 10;
// How plans of one host are cut: no lane limits their slices.
struct LocalSlices {
  uint64_t most_bytes = kLocalSliceBytes;
  uint64_t rounds = kTargetRounds;
};
// For kernels on GPUs: all their blocks work on one slice, and no round waits for another one.
inline constexpr LocalSlices kKernelSlices{.most_bytes = 8 << 20, .rounds = 1};
// The largest blocks that are packed if a plan has several parts: above, copying them costs more
// than a slice for each. A straight slice has no fewer bytes, if its block has.
inline constexpr uint64_t kMaxPackedBytes = 16 << 10;

// The division of one operation: `total` elements in blocks of equal size; the last blocks of an
// all-reduce may be short or empty. A cheap value, without allocation.
class Geometry {
 public:
  // `count`: as in the NCCL call (per rank for all-gather and reduce-scatter).
  // REQUIRES: slot_bytes ≥ 64 × plan.max_pieces; the bytes of all blocks together < 2^63.
  Geometry(const Plan& plan, DataType type, uint64_t count, uint32_t slot_bytes,
           const LocalSlices& local = {});

  // Rounds of a channel; 0 if it has no elements. The same on every host.
  uint64_t rounds(ChannelId channel) const { return division_.Rounds(channel.value()); }
  // The parts that a round takes.
  IndexRange Parts(uint64_t round) const { return division_.Parts(round); }
  // Number of slices of a block on the channel, and which of them a round takes.
  uint64_t slices(ChannelId channel) const { return division_.Slices(channel.value()); }
  uint64_t SliceOf(uint64_t round) const { return division_.SliceOf(round); }
  // The slice of `block` in round `round` of `channel`; count 0 if the block is too short.
  Extent Slice(ChannelId channel, uint64_t round, int32_t block) const {
    return division_.Slice(channel.value(), round, block);
  }
  // Element offset of `block` in a blocked buffer.
  uint64_t BlockOffset(int32_t block) const { return division_.BlockOffset(block); }
  // Elements of `block`.
  uint64_t BlockLength(int32_t block) const { return division_.BlockLength(block); }

  // The same as plain numbers, for a kernel.
  const Division& division() const { return division_; }

 private:
  Division division_;
};

// The largest number of parts that a round takes, with any count.
size_t MaxRoundParts(const Plan& plan);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_GEOMETRY_H_
