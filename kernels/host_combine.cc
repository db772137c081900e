// Combine for the host: plain loops, which the compiler turns into vectors. Each has one operator
// and one format, and runs over a tile of accumulators in the L1 cache.
#include <algorithm>
#include <cstring>

#include "kernels/element_formats.h"
#include "kernels/element_operators.h"
#include "kernels/elements.h"

namespace mccs::kernels {
namespace {

// Elements of a tile. The accumulators of the widest type take 8 KiB.
constexpr uint64_t kTile = 1024;
// Threads get whole vectors of the widest registers.
constexpr uint64_t kElementsAtOnce = 64;

// The elements of one thread.
struct Range {
  uint64_t begin, end;
};

Range RangeOf(uint64_t elements, Team team) {
  const uint64_t blocks = (elements + kElementsAtOnce - 1) / kElementsAtOnce;
  const uint64_t blocks_each = (blocks + team.threads - 1) / team.threads;
  const uint64_t each = blocks_each * kElementsAtOnce;
  return {std::min(elements, each * team.index), std::min(elements, each * (team.index + 1))};
}

struct Call {
  const ElementOp& op;
  const Source* sources;
  uint32_t source_count;
  unsigned char* const* destinations;
  uint32_t destination_count;
};

// `bytes` bytes from one place to another, or to the same one.
void Move(unsigned char* to, const unsigned char* from, size_t bytes) {
  if (to != from) memcpy(to, from, bytes);
}

void CopyBytes(const Call& call, Range bytes) {
  // Large copies in pieces that stay in the L1 cache for the other destinations.
  constexpr uint64_t kPiece = 16384;
  const unsigned char* from = call.sources[0].address;
  if (call.destination_count == 1) {
    return Move(call.destinations[0] + bytes.begin, from + bytes.begin, bytes.end - bytes.begin);
  }
  for (uint64_t at = bytes.begin; at < bytes.end; at += kPiece) {
    const uint64_t count = std::min(kPiece, bytes.end - at);
    // A destination that is the source comes out unchanged.
    for (uint32_t k = 0; k < call.destination_count; ++k) {
      Move(call.destinations[k] + at, from + at, count);
    }
  }
}

template <class Format>
typename Format::Acc Decode(const unsigned char* from) {
  typename Format::Stored stored;
  memcpy(&stored, from, sizeof(stored));
  return Format::Decode(stored);
}

// Loops over one tile of `count` elements.
template <class Format, class Op>
class Tile {
  using Stored = typename Format::Stored;
  using Acc = typename Format::Acc;
  static constexpr uint64_t kSize = sizeof(Stored);

 public:
  explicit Tile(uint64_t count) : count_(count) {}

  void Start(const unsigned char* __restrict from) {
    for (uint64_t i = 0; i < count_; ++i) sum_[i] = Decode<Format>(from + i * kSize);
  }
  void StartScaled(const unsigned char* __restrict from, Acc scale) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = ProductOf::Apply(Decode<Format>(from + i * kSize), scale);
    }
  }
  // Start and Accumulate in one pass.
  void StartTwo(const unsigned char* __restrict a, const unsigned char* __restrict b) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = Op::Apply(Decode<Format>(a + i * kSize), Decode<Format>(b + i * kSize));
    }
  }
  void Accumulate(const unsigned char* __restrict from) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = Op::Apply(sum_[i], Decode<Format>(from + i * kSize));
    }
  }
  void AccumulateScaled(const unsigned char* __restrict from, Acc scale) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = Op::Apply(sum_[i], ProductOf::Apply(Decode<Format>(from + i * kSize), scale));
    }
  }
  void Divide(const Divider<Acc>& divider) {
    for (uint64_t i = 0; i < count_; ++i) sum_[i] = divider.Apply(sum_[i]);
  }
  void Write(unsigned char* __restrict to) const {
    for (uint64_t i = 0; i < count_; ++i) {
      const Stored stored = Format::Encode(sum_[i]);
      memcpy(to + i * kSize, &stored, kSize);
    }
  }

 private:
  uint64_t count_;
  alignas(64) Acc sum_[kTile];
};

template <class Format>
typename Format::Acc Scale(const Source& source) {
  const auto* bits = reinterpret_cast<const unsigned char*>(&source.scale_bits);
  return Decode<Format>(source.scale_address != nullptr ? source.scale_address : bits);
}

template <class Format, class Op>
void Reduce(const Call& call, Range range) {
  constexpr uint64_t kSize = sizeof(typename Format::Stored);
  const Divider<typename Format::Acc> divider(call.op.divides ? call.op.divisor : 1);
  for (uint64_t at = range.begin; at < range.end; at += kTile) {
    const uint64_t count = std::min(kTile, range.end - at);
    Tile<Format, Op> tile(count);
    const auto from = [&](uint32_t k) { return call.sources[k].address + at * kSize; };
    uint32_t k = 1;
    if (call.sources[0].scaled) {
      tile.StartScaled(from(0), Scale<Format>(call.sources[0]));
    } else if (call.source_count > 1 && !call.sources[1].scaled) {
      tile.StartTwo(from(0), from(1));
      k = 2;
    } else {
      tile.Start(from(0));
    }
    for (; k < call.source_count; ++k) {
      if (call.sources[k].scaled) {
        tile.AccumulateScaled(from(k), Scale<Format>(call.sources[k]));
      } else {
        tile.Accumulate(from(k));
      }
    }
    if (call.op.divides) tile.Divide(divider);
    unsigned char* const first = call.destinations[0] + at * kSize;
    tile.Write(first);
    for (uint32_t d = 1; d < call.destination_count; ++d) {
      Move(call.destinations[d] + at * kSize, first, count * kSize);
    }
  }
}

template <class Format>
void ReduceElements(const Call& call, Range range) {
  switch (call.op.op) {
    case ReduceOp::kSum:
      return Reduce<Format, SumOf>(call, range);
    case ReduceOp::kProd:
      return Reduce<Format, ProductOf>(call, range);
    case ReduceOp::kMin:
      return Reduce<Format, MinOf>(call, range);
    default:
      return Reduce<Format, MaxOf>(call, range);
  }
}

}  // namespace

void Combine(const ElementOp& op, const Source* sources, uint32_t source_count,
             unsigned char* const* destinations, uint32_t destination_count, uint64_t elements,
             Team team) {
  const Call call{op, sources, source_count, destinations, destination_count};
  if (IsCopy(op, sources, source_count)) {
    return CopyBytes(call, RangeOf(elements * ElementSize(op.type), team));
  }
  WithFormat(op.type,
             [&](auto format) { ReduceElements<decltype(format)>(call, RangeOf(elements, team)); });
}

}  // namespace mccs::kernels
