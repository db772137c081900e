#include "algorithms/geometry.h"

#include <algorithm>

#include "base/check.h"

namespace mccs {
namespace {

constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
constexpr uint64_t AlignUp(uint64_t a, uint64_t unit) { return CeilDiv(a, unit) * unit; }

// Bounds of a slice's length, in elements per piece: multiples of `unit`.
struct SliceBounds {
  uint64_t least = 0;               // shortest length with acceptable overhead
  uint64_t most = 0;                // longest length that fits a slot
  uint64_t rounds = kTargetRounds;  // to aim at, for the slices of one part
};

SliceBounds BoundsOf(const Plan& plan, uint64_t unit, uint32_t slot_bytes,
                     const LocalSlices& local) {
  const uint64_t pieces = static_cast<uint64_t>(plan.max_pieces);
  uint64_t limit_bytes = slot_bytes / pieces;
  if (!plan.crosses_hosts) limit_bytes = std::min(limit_bytes, local.most_bytes);
  const uint64_t most = limit_bytes / kAlignmentBytes * unit;
  MCCS_CHECK(most > 0);
  const bool straight = plan.parts > 1 && !plan.key.packed;
  const uint64_t least_bytes = (straight ? kMaxPackedBytes : kMinSliceBytes) / pieces;
  const uint64_t least = std::max<uint64_t>(1, least_bytes / kAlignmentBytes) * unit;
  const uint64_t target = plan.crosses_hosts ? kTargetRounds : local.rounds;
  const uint64_t rounds = target / static_cast<uint64_t>(plan.parts);
  return {.least = std::min(least, most),
          .most = most,
          .rounds = straight ? std::max<uint64_t>(1, rounds) : target};
}

// Length of a slice, for the longest share of a channel.
uint64_t SliceElements(const SliceBounds& bounds, uint64_t share, uint64_t unit) {
  const uint64_t aimed = std::max(bounds.least, AlignUp(CeilDiv(share, bounds.rounds), unit));
  const uint64_t rounds = CeilDiv(share, std::min(bounds.most, aimed));
  return AlignUp(CeilDiv(share, std::max<uint64_t>(rounds, 1)), unit);
}

// How many blocks of `length` elements a slice of a packed plan has.
uint64_t PackedParts(const Plan& plan, const SliceBounds& bounds, uint64_t length) {
  if (length == 0) return 1;
  const auto parts = static_cast<uint64_t>(plan.parts);
  const uint64_t aimed = std::max(bounds.least / length, CeilDiv(parts, kTargetRounds));
  const uint64_t most = std::min<uint64_t>(bounds.most / length, MaxRoundParts(plan));
  const uint64_t turns = CeilDiv(parts, std::max<uint64_t>(1, std::min(aimed, most)));
  return CeilDiv(parts, turns);
}

}  // namespace

size_t MaxRoundParts(const Plan& plan) {
  return plan.key.packed ? static_cast<size_t>(std::min(plan.parts, kMaxPieces)) : 1;
}

Geometry::Geometry(const Plan& plan, DataType type, uint64_t count, uint32_t slot_bytes,
                   const LocalSlices& local) {
  const uint64_t unit = kAlignmentBytes / SizeOf(type);
  const uint64_t blocks = static_cast<uint64_t>(plan.blocks);
  const bool cut = plan.count_spans_blocks && blocks > 1;
  division_.total = plan.count_spans_blocks ? count : count * blocks;
  division_.block_elements = cut ? AlignUp(CeilDiv(count, blocks), unit) : count;
  const uint64_t longest = BlockLength(0);
  const SliceBounds bounds = BoundsOf(plan, unit, slot_bytes, local);
  const bool packs = PacksParts(plan);
  const uint64_t channels =
      packs ? 1 : std::min<uint64_t>(plan.programs.size(), longest / bounds.least);
  division_.channel_elements = AlignUp(CeilDiv(longest, std::max<uint64_t>(channels, 1)), unit);
  division_.parts = static_cast<uint64_t>(plan.parts);
  if (packs) division_.round_parts = PackedParts(plan, bounds, longest);
  division_.turns = CeilDiv(division_.parts, division_.round_parts);
  if (division_.round_parts > 1) {
    division_.slice_elements = division_.channel_elements;
    return;
  }
  division_.slice_elements =
      SliceElements(bounds, std::min(longest, division_.channel_elements), unit);
}

}  // namespace mccs
