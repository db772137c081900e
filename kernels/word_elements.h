// The elements of one word in registers: decoded, accumulated, encoded.
#ifndef MCCS_KERNELS_WORD_ELEMENTS_H_
#define MCCS_KERNELS_WORD_ELEMENTS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/element_formats.h"
#include "kernels/element_operators.h"
#include "kernels/memory_access.h"
#include "kernels/portable.h"
#include "proto/operation.h"

namespace mccs::kernels {

// The accumulated elements of a word of kBytes bytes. REQUIRES: kBytes ≥ sizeof(Stored).
template <class Format, int kBytes>
struct WordElements {
  using Stored = typename Format::Stored;
  using Acc = typename Format::Acc;
  static constexpr int kSize = sizeof(Stored);
  static constexpr int kCount = kBytes / kSize;
  static constexpr int kInPart = kSize < 4 ? 4 / kSize : 1;  // elements of 32 bits
  static constexpr bool kNarrowFloat = !std::is_same_v<Stored, Acc>;

  Acc values[kCount];

  MCCS_INLINE void Decode(const Word<kBytes>& word) {
    if constexpr (kSize == 8) {
      MCCS_UNROLL for (int i = 0; i < kCount; ++i) {
        values[i] = Format::Decode(
            BitsOf<Stored>(uint64_t{word.parts[2 * i]} | uint64_t{word.parts[2 * i + 1]} << 32));
      }
    } else if constexpr (kSize == 4) {
      MCCS_UNROLL for (int i = 0; i < kCount; ++i) {
        values[i] = Format::Decode(BitsOf<Stored>(word.parts[i]));
      }
    } else if constexpr (kNarrowFloat && kCount == 1) {
      Acc unused;
      Format::DecodePair(word.parts[0], values[0], unused);
    } else if constexpr (kNarrowFloat) {
      MCCS_UNROLL for (int i = 0; i < kCount; i += 2) {
        Format::DecodePair(word.parts[i / kInPart] >> (i % kInPart * 8 * kSize), values[i],
                           values[i + 1]);
      }
    } else {
      MCCS_UNROLL for (int i = 0; i < kCount; ++i) {
        values[i] = static_cast<Stored>(word.parts[i / kInPart] >> (i % kInPart * 8 * kSize));
      }
    }
  }

  MCCS_INLINE Word<kBytes> Encode() const {
    Word<kBytes> word = {};
    if constexpr (kSize == 8) {
      MCCS_UNROLL for (int i = 0; i < kCount; ++i) {
        const auto bits = BitsOf<uint64_t>(Format::Encode(values[i]));
        word.parts[2 * i] = static_cast<uint32_t>(bits);
        word.parts[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
      }
    } else if constexpr (kSize == 4) {
      MCCS_UNROLL for (int i = 0; i < kCount; ++i) {
        word.parts[i] = BitsOf<uint32_t>(Format::Encode(values[i]));
      }
    } else if constexpr (kNarrowFloat && kCount == 1) {
      word.parts[0] = Format::EncodePair(values[0], Acc{});
    } else if constexpr (kNarrowFloat) {
      MCCS_UNROLL for (int i = 0; i < kCount; i += 2) {
        word.parts[i / kInPart] |= Format::EncodePair(values[i], values[i + 1])
                                   << (i % kInPart * 8 * kSize);
      }
    } else {
      MCCS_UNROLL for (int i = 0; i < kCount; ++i) {
        const auto bits = static_cast<std::make_unsigned_t<Stored>>(values[i]);
        word.parts[i / kInPart] |= uint32_t{bits} << (i % kInPart * 8 * kSize);
      }
    }
    return word;
  }

  MCCS_INLINE void MultiplyBy(Acc scale) {
    MCCS_UNROLL for (int i = 0; i < kCount; ++i) values[i] = ProductOf::Apply(values[i], scale);
  }

  // All threads have the same `op`: the branch costs two instructions per word.
  MCCS_INLINE void Accumulate(ReduceOp op, const WordElements& more) {
    switch (op) {
      case ReduceOp::kSum:
        return Accumulate<SumOf>(more);
      case ReduceOp::kProd:
        return Accumulate<ProductOf>(more);
      case ReduceOp::kMin:
        return Accumulate<MinOf>(more);
      default:
        return Accumulate<MaxOf>(more);
    }
  }

  template <class Division>
  MCCS_INLINE void DivideBy(const Division& divider) {
    MCCS_UNROLL for (int i = 0; i < kCount; ++i) values[i] = divider.Apply(values[i]);
  }

 private:
  template <class Op>
  MCCS_INLINE void Accumulate(const WordElements& more) {
    MCCS_UNROLL for (int i = 0; i < kCount; ++i) values[i] = Op::Apply(values[i], more.values[i]);
  }
};

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_WORD_ELEMENTS_H_
