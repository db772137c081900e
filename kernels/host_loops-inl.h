// The loops of Combine on the host. Included once per instruction set: MCCS_HOST_LOOPS names the
// namespace, and a pragma around the inclusion selects the instructions. Everything that is called
// in a loop is inlined, so that it is compiled for the same instructions.
namespace mccs::kernels {
namespace {
namespace MCCS_HOST_LOOPS {

template <class Format>
MCCS_INLINE typename Format::Acc Decode(const unsigned char* from) {
  typename Format::Stored stored;
  memcpy(&stored, from, sizeof(stored));
  return Format::Decode(stored);
}

// The accumulators of `count` elements. What does not depend on the operator is not inlined.
template <class Format>
class Tile {
  using Stored = typename Format::Stored;
  using Acc = typename Format::Acc;
  static constexpr uint64_t kSize = sizeof(Stored);

 public:
  explicit Tile(uint64_t count) : count_(count) {}

  MCCS_NO_INLINE void Start(const unsigned char* __restrict from) {
    for (uint64_t i = 0; i < count_; ++i) sum_[i] = Decode<Format>(from + i * kSize);
  }
  MCCS_NO_INLINE void StartScaled(const unsigned char* __restrict from, Acc scale) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = ProductOf::Apply(Decode<Format>(from + i * kSize), scale);
    }
  }
  // Start and Accumulate in one pass.
  template <class Op>
  void StartTwo(const unsigned char* __restrict a, const unsigned char* __restrict b) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = Op::Apply(Decode<Format>(a + i * kSize), Decode<Format>(b + i * kSize));
    }
  }
  template <class Op>
  void Accumulate(const unsigned char* __restrict from) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = Op::Apply(sum_[i], Decode<Format>(from + i * kSize));
    }
  }
  template <class Op>
  void AccumulateScaled(const unsigned char* __restrict from, Acc scale) {
    for (uint64_t i = 0; i < count_; ++i) {
      sum_[i] = Op::Apply(sum_[i], ProductOf::Apply(Decode<Format>(from + i * kSize), scale));
    }
  }
  MCCS_NO_INLINE void Divide(const Divider<Acc>& divider) {
    for (uint64_t i = 0; i < count_; ++i) sum_[i] = divider.Apply(sum_[i]);
  }
  MCCS_NO_INLINE void Write(unsigned char* __restrict to) const {
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
    Tile<Format> tile(count);
    const auto from = [&](uint32_t k) { return call.sources[k].address + at * kSize; };
    uint32_t k = 1;
    if (call.sources[0].scaled) {
      tile.StartScaled(from(0), Scale<Format>(call.sources[0]));
    } else if (call.source_count > 1 && !call.sources[1].scaled) {
      tile.template StartTwo<Op>(from(0), from(1));
      k = 2;
    } else {
      tile.Start(from(0));
    }
    for (; k < call.source_count; ++k) {
      if (call.sources[k].scaled) {
        tile.template AccumulateScaled<Op>(from(k), Scale<Format>(call.sources[k]));
      } else {
        tile.template Accumulate<Op>(from(k));
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

void Run(const Call& call, uint64_t elements, Team team) {
  WithFormat(call.op.type,
             [&](auto format) { ReduceElements<decltype(format)>(call, RangeOf(elements, team)); });
}

}  // namespace MCCS_HOST_LOOPS
}  // namespace
}  // namespace mccs::kernels
