// The loop that runs every MemOp: a few vectors at a time, all sources, then all destinations. It
// reads each source once and writes each destination once, whatever their numbers. Included once
// per instruction set (Highway).
//
//              source 0   source 1  …                 destination 0  destination 1 …
//   block i:   [v v v v] ⊕ [v v v v] ⊕ …  ─ finish ─►  [v v v v]      [v v v v]
//
// With many sources, accessing a block of each in turn would defeat the processor's prefetching.
// Then a tile of accumulators stays in the L1 cache. A few sources are read at a time, and the
// destinations are written one after the other.
#if defined(MCCS_SERVICE_DEVICE_KERNEL_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MCCS_SERVICE_DEVICE_KERNEL_LOOPS_INL_H_
#undef MCCS_SERVICE_DEVICE_KERNEL_LOOPS_INL_H_
#else
#define MCCS_SERVICE_DEVICE_KERNEL_LOOPS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "service/device/kernel_lanes-inl.h"
#include "service/device/mem_op.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Maximum number of sources read side by side: hardware prefetches about this many streams.
inline constexpr size_t kSideBySide = 8;
// How the destinations are written.
enum class Writing {
  kPlain,
  kPrefetch,  // plain, with explicit prefetch of the lines: processors do not prefetch stores as
              // they prefetch loads
  kStream,    // non-temporal
};
// Bytes per destination from which prefetching helps. Smaller outputs tend to be in the cache.
inline constexpr size_t kPrefetchFromBytes = 64 << 10;
// Prefetch distance: about as many lines as one core can have in flight.
inline constexpr size_t kPrefetchDistanceBytes = 4096;
// Bytes of accumulators, which must stay in the L1 cache.
inline constexpr size_t kTileBytes = 16384;

// a·b in every lane, wrapping for integers.
template <class D>
HWY_INLINE hn::Vec<D> Multiply([[maybe_unused]] D d, hn::Vec<D> a, hn::Vec<D> b) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  if constexpr (std::is_integral_v<T>) {
    return hn::Set(d, static_cast<T>(uint64_t(hn::GetLane(a)) * uint64_t(hn::GetLane(b))));
  } else {
    return hn::Mul(a, b);
  }
#else
  if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
    const hn::Repartition<uint16_t, D> d16;
    const auto a16 = hn::BitCast(d16, a);
    const auto b16 = hn::BitCast(d16, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, uint16_t{0xff}));
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(even, odd));
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
#if HWY_TARGET == HWY_AVX3
    return hn::Mul(a, b);
#else
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<uint32_t, D> d32;
    const auto a32 = hn::BitCast(d32, a);
    const auto b32 = hn::BitCast(d32, b);
    const auto a_high = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(du, a)));
    const auto b_high = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(du, b)));
    const auto cross = hn::Add(hn::MulEven(a_high, b32), hn::MulEven(a32, b_high));
    return hn::BitCast(d, hn::Add(hn::MulEven(a32, b32), hn::ShiftLeft<32>(cross)));
#endif
  } else {
    return hn::Mul(a, b);
  }
#endif
}

struct SumOf {
  template <class D>
  static HWY_INLINE hn::Vec<D> Apply(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Add(a, b);
  }
};

struct ProductOf {
  template <class D>
  static HWY_INLINE hn::Vec<D> Apply(D d, hn::Vec<D> a, hn::Vec<D> b) {
    return Multiply(d, a, b);
  }
};

// The smaller (larger) one; of a number and a NaN the number; -0 is smaller than +0. So the order
// of the sources does not matter.
template <bool kSmaller>
struct ExtremeOf {
  template <class D>
  static HWY_INLINE hn::Vec<D> Apply([[maybe_unused]] D d, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) {
      return kSmaller ? hn::Min(a, b) : hn::Max(a, b);
    } else {
      const auto b_wins = kSmaller ? hn::Lt(b, a) : hn::Gt(b, a);
      const auto of_equals = kSmaller ? hn::Or(a, b) : hn::And(a, b);
      auto result = hn::IfThenElse(b_wins, b, a);
      result = hn::IfThenElse(hn::Eq(a, b), of_equals, result);
      return hn::IfThenElse(hn::IsNaN(a), b, result);
    }
  }
};

using MinOf = ExtremeOf<true>;
using MaxOf = ExtremeOf<false>;

// Division of an accumulated integer, towards zero. Powers of two are shifts.
template <typename T>
class Divider {
 public:
  explicit Divider(const MemOp& op) : divisor_(op.finish == Finish::kDivide ? op.divisor : 1) {
    const int bits = std::bit_width(divisor_) - 1;
    by_shift_ = std::has_single_bit(divisor_) && bits < static_cast<int>(8 * sizeof(T)) - 1;
    shift_ = bits;
  }

  template <class D>
  HWY_INLINE hn::Vec<D> Apply([[maybe_unused]] D d, hn::Vec<D> v) const {
    if (HWY_LIKELY(divisor_ == 1)) return v;
    if (!by_shift_) return EachLane(d, v);
    if constexpr (std::is_signed_v<T>) {  // negative values round up
      const auto negative = hn::BroadcastSignBit(v);
      v = hn::Add(v, hn::And(negative, hn::Set(d, static_cast<T>((T{1} << shift_) - 1))));
    }
    return hn::ShiftRightSame(v, shift_);
  }

 private:
  template <class D>
  HWY_NOINLINE hn::Vec<D> EachLane(D d, hn::Vec<D> v) const {
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    for (T& lane : lanes) lane = Quotient(lane);
    return hn::Load(d, lanes);
  }

  T Quotient(T value) const {
    if constexpr (std::is_signed_v<T>) {
      if (divisor_ > static_cast<uint64_t>(INT64_MAX)) return 0;
      return static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(divisor_));
    } else {
      return static_cast<T>(value / divisor_);
    }
  }

  uint64_t divisor_;
  bool by_shift_;
  int shift_;
};

template <typename T>
struct NoFinish {
  explicit NoFinish(const MemOp&) {}
  template <class D>
  HWY_INLINE hn::Vec<D> Apply(D, hn::Vec<D> v) const {
    return v;
  }
};

// One MemOp over elements of one Lane.
template <class Lane, class Op, template <typename> class FinishBy>
class Loop {
  using Stored = typename Lane::Stored;
  using Acc = typename Lane::Acc;
  using D = hn::ScalableTag<Acc>;
  using V = hn::Vec<D>;
  using EncodedD = hn::Rebind<Stored, D>;
  static constexpr size_t kUnroll = 4;
  static constexpr size_t kTile = kTileBytes / sizeof(Acc);
  static constexpr bool kOneLane = hn::MaxLanes(D()) == 1;  // no partial vectors

 public:
  explicit Loop(const MemOp& op)
      : sources_(op.sources), destinations_(op.destinations), finish_(op) {}

  void Run(const MemOp& op) {
    if (op.stream && AlignTogether(op)) return RunStreaming(op.elements);
    if (op.elements * sizeof(Stored) >= kPrefetchFromBytes && !InPlace(op)) {
      return RunRange<Writing::kPrefetch>(0, op.elements);
    }
    RunRange<Writing::kPlain>(0, op.elements);
  }

 private:
  static constexpr size_t kLineBytes = 64;

  void RunStreaming(size_t elements) {
    const size_t head = std::min(HeadElements(), elements);
    const size_t body = (elements - head) / Block() * Block();
    RunRange<Writing::kPlain>(0, head);
    RunRange<Writing::kStream>(head, head + body);
    RunRange<Writing::kPlain>(head + body, elements);
    hwy::FlushStream();
  }

  // Streaming stores need aligned destinations; all of them must be aligned after the same head.
  static bool AlignTogether(const MemOp& op) {
    const auto misalignment = [](const std::byte* p) {
      return reinterpret_cast<uintptr_t>(p) % kLineBytes;
    };
    for (const std::byte* to : op.destinations) {
      if (misalignment(to) != misalignment(op.destinations[0])) return false;
    }
    return true;
  }

  // A destination that is also a source is in the cache when it is written.
  static bool InPlace(const MemOp& op) {
    return std::any_of(op.sources.begin(), op.sources.end(), [&](const MemSource& source) {
      return source.address == op.destinations[0];
    });
  }

  static size_t Block() { return kUnroll * hn::Lanes(D()); }

  size_t HeadElements() const {
    const auto first = reinterpret_cast<uintptr_t>(destinations_[0]);
    return (kLineBytes - first % kLineBytes) % kLineBytes / sizeof(Stored);
  }

  const Stored* From(size_t k, size_t i) const {
    return reinterpret_cast<const Stored*>(sources_[k].address) + i;
  }
  Stored* To(size_t k, size_t i) const { return reinterpret_cast<Stored*>(destinations_[k]) + i; }

  template <Writing kWriting>
  void RunRange(size_t begin, size_t end) {
    if (begin == end) return;
    if (sources_.size() <= kSideBySide) {
      RunSideBySide<kWriting>(begin, end);
    } else {
      RunTiles<kWriting>(begin, end);
    }
  }

  template <Writing kWriting>
  void RunSideBySide(size_t begin, size_t end) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    size_t i = begin;
    for (; i + kUnroll * lanes <= end; i += kUnroll * lanes) {
      V a0, a1, a2, a3;
      LoadBlock(0, i, a0, a1, a2, a3);
      for (size_t k = 1; k < sources_.size(); ++k) AddBlock(k, i, a0, a1, a2, a3);
      StoreBlock<kWriting>(i, a0, a1, a2, a3);
    }
    for (; i < end; i += lanes) {
      const size_t n = std::min(lanes, end - i);
      V acc = LoadSome(0, i, n);
      for (size_t k = 1; k < sources_.size(); ++k) acc = Op::Apply(d, acc, LoadSome(k, i, n));
      StoreSome(i, n, acc);
    }
  }

  template <Writing kWriting>
  void RunTiles(size_t begin, size_t end) {
    HWY_ALIGN Acc tile[kTile];
    size_t base = begin;
    // The last tile may be shorter.
    for (size_t n; (n = std::min(kTile, (end - base) / Block() * Block())) > 0; base += n) {
      AccumulateTile(base, n, tile);
      StoreTile<kWriting>(base, n, tile);
    }
    RunSideBySide<kWriting>(base, end);
  }

  // `n`: whole blocks.
  HWY_NOINLINE void AccumulateTile(size_t base, size_t n, Acc* HWY_RESTRICT tile) const {
    const D d;
    const size_t lanes = hn::Lanes(d);
    for (size_t first = 0; first < sources_.size(); first += kSideBySide) {
      const size_t last = std::min(first + kSideBySide, sources_.size());
      for (size_t i = 0; i < n; i += kUnroll * lanes) {
        Acc* at = tile + i;
        size_t k = first;
        V a0, a1, a2, a3;
        if (k == 0) {
          LoadBlock(k++, base + i, a0, a1, a2, a3);
        } else {
          a0 = hn::Load(d, at);
          a1 = hn::Load(d, at + lanes);
          a2 = hn::Load(d, at + 2 * lanes);
          a3 = hn::Load(d, at + 3 * lanes);
        }
        for (; k < last; ++k) AddBlock(k, base + i, a0, a1, a2, a3);
        hn::Store(a0, d, at);
        hn::Store(a1, d, at + lanes);
        hn::Store(a2, d, at + 2 * lanes);
        hn::Store(a3, d, at + 3 * lanes);
      }
    }
  }

  template <Writing kWriting>
  HWY_NOINLINE void StoreTile(size_t base, size_t n, Acc* HWY_RESTRICT tile) const {
    if constexpr (std::is_same_v<Stored, Acc>) {
      EncodeTile(n, tile, tile);
      WriteTile<kWriting>(base, n, tile);
    } else {
      HWY_ALIGN Stored encoded[kTile];
      EncodeTile(n, tile, encoded);
      WriteTile<kWriting>(base, n, encoded);
    }
  }

  void EncodeTile([[maybe_unused]] size_t n, [[maybe_unused]] const Acc* tile,
                  [[maybe_unused]] Stored* encoded) const {
    if constexpr (std::is_same_v<Stored, Acc> && std::is_same_v<FinishBy<Acc>, NoFinish<Acc>>) {
      return;
    }
    const D d;
    const size_t lanes = hn::Lanes(d);
    for (size_t i = 0; i < n; i += kUnroll * lanes) {
      const V a0 = finish_.Apply(d, hn::Load(d, tile + i));
      const V a1 = finish_.Apply(d, hn::Load(d, tile + i + lanes));
      const V a2 = finish_.Apply(d, hn::Load(d, tile + i + 2 * lanes));
      const V a3 = finish_.Apply(d, hn::Load(d, tile + i + 3 * lanes));
      Lane::StoreFour(d, a0, a1, a2, a3, ToTile{encoded + i});
    }
  }

  template <Writing kWriting>
  void WriteTile(size_t base, size_t n, const Stored* HWY_RESTRICT encoded) const {
    const hn::ScalableTag<Stored> ds;
    for (size_t k = 0; k < destinations_.size(); ++k) {
      Stored* HWY_RESTRICT to = To(k, base);
      for (size_t i = 0; i < n; i += hn::Lanes(ds)) {
        if constexpr (kWriting == Writing::kPrefetch) PrefetchLine(to + i);
        Put<kWriting>(ds, hn::Load(ds, encoded + i), to + i);
      }
    }
  }

  HWY_INLINE void LoadBlock(size_t k, size_t i, V& a0, V& a1, V& a2, V& a3) const {
    const D d;
    Lane::LoadFour(d, From(k, i), a0, a1, a2, a3);
    if (HWY_UNLIKELY(sources_[k].scaled)) {
      const V scale = Scale(k);
      a0 = Multiply(d, a0, scale);
      a1 = Multiply(d, a1, scale);
      a2 = Multiply(d, a2, scale);
      a3 = Multiply(d, a3, scale);
    }
  }

  HWY_INLINE void AddBlock(size_t k, size_t i, V& a0, V& a1, V& a2, V& a3) const {
    const D d;
    V b0, b1, b2, b3;
    LoadBlock(k, i, b0, b1, b2, b3);
    a0 = Op::Apply(d, a0, b0);
    a1 = Op::Apply(d, a1, b1);
    a2 = Op::Apply(d, a2, b2);
    a3 = Op::Apply(d, a3, b3);
  }

  // Prefetches the line that is written kPrefetchDistanceBytes later; harmless beyond the end.
  static HWY_INLINE void PrefetchLine(const Stored* to) {
    __builtin_prefetch(reinterpret_cast<const std::byte*>(to) + kPrefetchDistanceBytes,
                       /*write=*/1, /*locality=*/2);
  }

  HWY_INLINE void PrefetchStores(size_t i) const {
    for (size_t k = 0; k < destinations_.size(); ++k) {
      for (size_t at = 0; at < Block(); at += kLineBytes / sizeof(Stored)) {
        PrefetchLine(To(k, i + at));
      }
    }
  }

  // kStream: `to` is aligned to the vector.
  template <Writing kWriting, class DE>
  static HWY_INLINE void Put(DE de, hn::Vec<DE> v, Stored* HWY_RESTRICT to) {
    if constexpr (kWriting == Writing::kStream) {
      hn::Stream(v, de, to);
    } else {
      hn::StoreU(v, de, to);
    }
  }

  // For Lane::StoreFour: a block of each destination, and of the encoded tile.
  template <Writing kWriting>
  struct ToDestinations {
    const Loop& loop;
    size_t i;
    template <class DW, class... Vectors>
    HWY_INLINE void operator()(DW dw, Vectors... vectors) const {
      for (size_t k = 0; k < loop.destinations_.size(); ++k) {
        Stored* to = loop.To(k, i);
        ((Put<kWriting>(dw, vectors, to), to += hn::Lanes(dw)), ...);
      }
    }
  };
  struct ToTile {
    Stored* to;
    template <class DW, class... Vectors>
    HWY_INLINE void operator()(DW dw, Vectors... vectors) const {
      Stored* at = to;
      ((hn::Store(vectors, dw, at), at += hn::Lanes(dw)), ...);
    }
  };

  template <Writing kWriting>
  HWY_INLINE void StoreBlock(size_t i, V a0, V a1, V a2, V a3) const {
    const D d;
    if constexpr (kWriting == Writing::kPrefetch) PrefetchStores(i);
    Lane::StoreFour(d, finish_.Apply(d, a0), finish_.Apply(d, a1), finish_.Apply(d, a2),
                    finish_.Apply(d, a3), ToDestinations<kWriting>{*this, i});
  }

  // `n` elements, at most a vector's; never accesses memory beyond them.
  HWY_INLINE V LoadSome(size_t k, size_t i, size_t n) const {
    const D d;
    V v;
    if (kOneLane || HWY_LIKELY(n == hn::Lanes(d))) {
      v = Lane::Load(d, From(k, i));
    } else {
      HWY_ALIGN Stored part[hn::MaxLanes(D())] = {};
      std::memcpy(part, From(k, i), n * sizeof(Stored));
      v = Lane::Load(d, part);
    }
    return HWY_UNLIKELY(sources_[k].scaled) ? Multiply(d, v, Scale(k)) : v;
  }

  HWY_INLINE void StoreSome(size_t i, size_t n, V v) const {
    const D d;
    v = finish_.Apply(d, v);
    HWY_ALIGN Stored part[hn::MaxLanes(D())];
    hn::Store(Lane::Encode(d, v), EncodedD(), part);
    const size_t bytes = (kOneLane ? 1 : n) * sizeof(Stored);
    for (size_t k = 0; k < destinations_.size(); ++k) std::memcpy(To(k, i), part, bytes);
  }

  HWY_INLINE V Scale(size_t k) const {
    const D d;
    Stored scale;
    const MemSource& source = sources_[k];
    const void* from = &source.scale_bits;
    if (source.scale_address != nullptr) from = source.scale_address;
    std::memcpy(&scale, from, sizeof(scale));
    if constexpr (std::is_same_v<Stored, Acc>) {
      return hn::Set(d, scale);
    } else {
      HWY_ALIGN Stored copies[hn::MaxLanes(D())];
      std::fill(std::begin(copies), std::end(copies), scale);
      return Lane::Load(d, copies);
    }
  }

  std::span<const MemSource> sources_;
  std::span<std::byte* const> destinations_;
  FinishBy<Acc> finish_;
};

template <class Lane, class Op, template <typename> class FinishBy>
void RunLoop(const MemOp& op) {
  Loop<Lane, Op, FinishBy>(op).Run(op);
}

template <class Lane, template <typename> class FinishBy>
void RunReduction(const MemOp& op) {
  switch (op.op) {
    case ReduceOp::kSum:
      return RunLoop<Lane, SumOf, FinishBy>(op);
    case ReduceOp::kProd:
      return RunLoop<Lane, ProductOf, FinishBy>(op);
    case ReduceOp::kMin:
      return RunLoop<Lane, MinOf, FinishBy>(op);
    default:
      return RunLoop<Lane, MaxOf, FinishBy>(op);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
