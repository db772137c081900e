// Combine for GPUs: the threads of a team share the words of 16 bytes.
//
//   elements:   | head |  word 0  |  word 1  |  word 2  |  word 3  | …  | tail |
//   thread:                 0          1          2          3
//
// Consecutive threads have consecutive words, so that a warp accesses whole lines. Each thread has
// several words in flight: of several sources, of the same source, or both. All addresses usually
// agree modulo 16. Then the elements before the first whole word and after the last one, at most
// 30, are single accesses of the last threads of the team. Otherwise words are narrower: as wide as
// all addresses allow, but either 4 bytes or one element.
//
// No loop waits for other threads. A thread without a word does nothing.
//
// Host code may call it, too: so the tests check everything here but the machine's instructions.
#ifndef MCCS_KERNELS_VECTOR_COMBINE_H_
#define MCCS_KERNELS_VECTOR_COMBINE_H_

#include <cstdint>
#include <type_traits>

#include "kernels/element_formats.h"
#include "kernels/element_operators.h"
#include "kernels/elements.h"
#include "kernels/memory_access.h"
#include "kernels/portable.h"
#include "kernels/word_elements.h"

namespace mccs::kernels {
namespace vector_internal {

// The arguments of Combine.
struct Call {
  ElementOp op;
  const Source* sources;
  unsigned char* const* destinations;
  uint32_t source_count;
  uint32_t destination_count;
};

// The words of a thread: i = first, first + stride, … < end.
struct Share {
  uint64_t first, stride, end;
};

// Word i is at `offset` + kBytes · i.
struct Words : Share {
  uint64_t offset;

  template <int kBytes>
  MCCS_INLINE uint64_t Offset(uint64_t i) const {
    return offset + i * kBytes;
  }
};

// Single elements: the first `head` ones are at the start, the others follow `gap` bytes later.
struct Singles : Share {
  uint64_t head, gap;

  template <int kBytes>
  MCCS_INLINE uint64_t Offset(uint64_t i) const {
    return i * kBytes + (i < head ? 0 : gap);
  }
};

// The low kBytes bytes at `from`, which need not be aligned; the others are undefined.
template <int kBytes>
MCCS_INLINE uint64_t LoadUnaligned(const unsigned char* from) {
#ifdef __CUDA_ARCH__
  // Aligned words, so that there are few accesses. No word without a byte of the value is read.
  const uint32_t skew = reinterpret_cast<uint64_t>(from) % 4;
  uint32_t words[kBytes == 8 ? 3 : 2] = {};
  MCCS_UNROLL for (uint32_t i = 0; i < sizeof(words) / 4; ++i) {
    if (4 * i < skew + kBytes) words[i] = LoadWord<4>(from - skew + 4 * i).parts[0];
  }
  const uint64_t low = __funnelshift_r(words[0], words[1], 8 * skew);
  if constexpr (kBytes < 8) return low;
  if constexpr (kBytes == 8)
    return low | uint64_t{__funnelshift_r(words[1], words[2], 8 * skew)} << 32;
#else
  uint64_t bits = 0;
  memcpy(&bits, from, kBytes);
  return bits;
#endif
}

template <class Format>
MCCS_INLINE typename Format::Acc Scale(const Source& source) {
  constexpr int kBytes = sizeof(typename Format::Stored);
  uint64_t bits = source.scale_bits;
  if (source.scale_address != nullptr) bits = LoadUnaligned<kBytes>(source.scale_address);
  Word<kBytes> word;
  word.parts[0] = static_cast<uint32_t>(bits);
  if constexpr (kBytes == 8) word.parts[1] = static_cast<uint32_t>(bits >> 32);
  WordElements<Format, kBytes> scale;
  scale.Decode(word);
  return scale.values[0];
}

// Up to kSources sources that are read side by side, in registers.
template <class Format, int kSources>
struct Batch {
  const unsigned char* from[kSources];  // null: no source
  typename Format::Acc scales[kSources];
  bool scaled[kSources];

  MCCS_INLINE void Take(const Call& call, uint32_t first) {
    MCCS_UNROLL for (int k = 0; k < kSources; ++k) {
      from[k] = nullptr;
      scaled[k] = false;
      scales[k] = {};
      if (first + k >= call.source_count) continue;
      const Source& source = call.sources[first + k];
      from[k] = source.address;
      scaled[k] = source.scaled;
      if (source.scaled) scales[k] = Scale<Format>(source);
    }
  }
};

// kSources sources are read side by side, kWords words of each. More sources are read in batches;
// REQUIRES for that: kWords = 1.
template <class Format, int kBytes, int kSources, int kWords, class Share>
MCCS_INLINE void Reduce(const Call& call, const Divider<typename Format::Acc>& divider,
                        const Share& share) {
  using Elements = WordElements<Format, kBytes>;
  // A constant if there is one batch.
  const uint32_t batched_sources = kWords == 1 ? call.source_count : 1;
  unsigned char* const destination = call.destinations[0];
  Batch<Format, kSources> batch;
  batch.Take(call, 0);
  MCCS_NO_UNROLL for (uint64_t i = share.first; i < share.end; i += kWords * share.stride) {
    Elements sum;
    MCCS_NO_UNROLL for (uint32_t first = 0; first < batched_sources; first += kSources) {
      if (batched_sources > kSources) batch.Take(call, first);
      // Zero, so that no word of the iteration before is kept in a register.
      Word<kBytes> words[kSources][kWords] = {};
      MCCS_UNROLL for (int k = 0; k < kSources; ++k) {
        MCCS_UNROLL for (int j = 0; j < kWords; ++j) {
          const uint64_t at = i + j * share.stride;
          if (batch.from[k] != nullptr && at < share.end) {
            words[k][j] = LoadWord<kBytes>(batch.from[k] + share.template Offset<kBytes>(at));
          }
        }
      }
      // One word after the other, so that the accumulators of one are in registers at a time.
      MCCS_UNROLL for (int j = 0; j < kWords; ++j) {
        const uint64_t at = i + j * share.stride;
        if (at >= share.end) continue;
        MCCS_UNROLL for (int k = 0; k < kSources; ++k) {
          if (k > 0 && batch.from[k] == nullptr) continue;  // a batch is not empty
          Elements more;
          more.Decode(words[k][j]);
          if (batch.scaled[k]) more.MultiplyBy(batch.scales[k]);
          if (k == 0 && first == 0) {
            sum = more;
          } else {
            sum.Accumulate(call.op.op, more);
          }
        }
        if (first + kSources < batched_sources) continue;
        if (call.op.divides) sum.DivideBy(divider);
        const Word<kBytes> word = sum.Encode();
        StoreWord<kBytes>(destination + share.template Offset<kBytes>(at), word);
        MCCS_NO_UNROLL for (uint32_t k = 1; k < call.destination_count; ++k) {
          StoreWord<kBytes>(call.destinations[k] + share.template Offset<kBytes>(at), word);
        }
      }
    }
  }
}

template <int kBytes, int kWords, class Share>
MCCS_INLINE void Copy(const Call& call, const Share& share) {
  const unsigned char* from = call.sources[0].address;
  MCCS_NO_UNROLL for (uint64_t i = share.first; i < share.end; i += kWords * share.stride) {
    Word<kBytes> words[kWords] = {};  // as in Reduce
    MCCS_UNROLL for (int j = 0; j < kWords; ++j) {
      const uint64_t at = i + j * share.stride;
      if (at < share.end) words[j] = LoadWord<kBytes>(from + share.template Offset<kBytes>(at));
    }
    MCCS_NO_UNROLL for (uint32_t k = 0; k < call.destination_count; ++k) {
      unsigned char* to = call.destinations[k];
      MCCS_UNROLL for (int j = 0; j < kWords; ++j) {
        const uint64_t at = i + j * share.stride;
        if (at < share.end) StoreWord<kBytes>(to + share.template Offset<kBytes>(at), words[j]);
      }
    }
  }
}

// Where addresses differ: bits that are not the same in all of them.
MCCS_INLINE uint64_t DifferentBits(const Call& call) {
  const auto first = reinterpret_cast<uint64_t>(call.destinations[0]);
  uint64_t different = 0;
  MCCS_NO_UNROLL for (uint32_t k = 0; k < call.source_count; ++k) {
    different |= reinterpret_cast<uint64_t>(call.sources[k].address) ^ first;
  }
  MCCS_NO_UNROLL for (uint32_t k = 1; k < call.destination_count; ++k) {
    different |= reinterpret_cast<uint64_t>(call.destinations[k]) ^ first;
  }
  return different;
}

// REQUIRES: value is 1, 2, 4, 8 or 16.
constexpr MCCS_HOST_DEVICE unsigned Log2(unsigned value) {
  return value == 16 ? 4 : value == 8 ? 3 : value == 4 ? 2 : value == 2 ? 1 : 0;
}

// How a call of `elements` elements is divided into whole words, and single elements before and
// after them. All are single if a word is an element. Sizes are powers of two, as logarithms: the
// device divides 64-bit numbers slowly.
class Division {
 public:
  MCCS_INLINE Division(const Call& call, uint64_t elements, unsigned log_size, unsigned log_word,
                       Team team)
      : log_size_(log_size), team_(team) {
    const auto address = reinterpret_cast<uint64_t>(call.destinations[0]);
    head_ = ((uint64_t{0} - address) & ((1u << log_word) - 1)) >> log_size;
    if (head_ > elements) head_ = elements;
    words_ = log_word == log_size ? 0 : (elements - head_) >> (log_word - log_size);
    singles_ = elements - (words_ << (log_word - log_size));
    gap_ = words_ << log_word;
  }

  MCCS_INLINE Words words() const {
    return {{team_.index, team_.threads, words_}, head_ << log_size_};
  }
  // The last thread of the team has the first one: it has no word if there are fewer words than
  // threads.
  MCCS_INLINE Singles singles() const {
    return {{team_.threads - 1 - team_.index, team_.threads, singles_}, head_, gap_};
  }

 private:
  unsigned log_size_;
  Team team_;
  uint64_t head_, words_, singles_, gap_;
};

// Not inlined: the device compiler takes half the time for a function of each format.
template <class Format>
MCCS_NO_INLINE void ReduceElements(const Call& arguments, uint64_t elements, Team team) {
  const Call call = arguments;  // in registers
  constexpr int kSize = sizeof(typename Format::Stored);
  constexpr int kMiddle = kSize < 4 ? 4 : kSize;
  // Reductions of bytes are rare, and their loops the largest.
  constexpr bool kFewLoops = std::is_integral_v<typename Format::Acc> && kSize == 1;
  const uint64_t different = DifferentBits(call);
  const unsigned bytes = different % 16 == 0 ? 16 : different % kMiddle == 0 ? kMiddle : kSize;
  const Division division(call, elements, Log2(kSize), Log2(bytes), team);
  const Divider<typename Format::Acc> divider(call.op.divides ? call.op.divisor : 1);
  if (bytes == 16) {
    if (kFewLoops || call.source_count > 4) {
      Reduce<Format, 16, 8, 1>(call, divider, division.words());
    } else if constexpr (!kFewLoops) {
      if (call.source_count > 2) {
        Reduce<Format, 16, 4, 2>(call, divider, division.words());
      } else {
        Reduce<Format, 16, 2, 4>(call, divider, division.words());
      }
    }
  } else if (kMiddle > kSize && bytes == kMiddle) {
    if constexpr (kMiddle > kSize) Reduce<Format, kMiddle, 8, 1>(call, divider, division.words());
  }
  Reduce<Format, kSize, 8, 1>(call, divider, division.singles());
}

// Copies `bytes` bytes.
MCCS_INLINE void CopyBytes(const Call& call, uint64_t bytes, Team team) {
  const uint64_t different = DifferentBits(call);
  const unsigned width = different % 16 == 0  ? 16
                         : different % 4 == 0 ? 4
                         : different % 2 == 0 ? 2
                                              : 1;
  const Division division(call, bytes, 0, Log2(width), team);
  if (width == 16) {
    Copy<16, 8>(call, division.words());
  } else if (width == 4) {
    Copy<4, 8>(call, division.words());
  } else if (width == 2) {
    Copy<2, 8>(call, division.words());
  }
  Copy<1, 8>(call, division.singles());
}

}  // namespace vector_internal

// As Combine.
inline MCCS_HOST_DEVICE void CombineByVectors(const ElementOp& op, const Source* sources,
                                              uint32_t source_count,
                                              unsigned char* const* destinations,
                                              uint32_t destination_count, uint64_t elements,
                                              Team team) {
  const vector_internal::Call call{op, sources, destinations, source_count, destination_count};
  if (IsCopy(op, sources, source_count)) {
    return vector_internal::CopyBytes(call, elements * SizeOf(op.type), team);
  }
  WithFormat(op.type, [&](auto format) {
    vector_internal::ReduceElements<decltype(format)>(call, elements, team);
  });
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_VECTOR_COMBINE_H_
