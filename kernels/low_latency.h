// Short data between kernels, with a flag in each store: one transfer instead of data, fence, flag.
//
// The writer stores lines of 16 bytes into memory that the reader polls: the reader's own, mapped
// by the writer's GPU (peer mapping), or pinned host memory that both map. The two may be kernels
// of different processes, or a kernel and a thread of the host.
//
//     0        4        8        12       16
//     | data 0 | flag   | data 1 | flag   |
//
// A line carries 8 bytes. Each half has its own flag, since no more than an aligned 8-byte access
// is indivisible on every path: both memory models (PTX, C++) promise it for scalars of 64 bits.
// They do not promise it for a vector of 16 bytes, which PCIe or a switch may also split. One flag
// and 12 bytes would save a third of the traffic. But latency dominates here, and a torn line would
// be silent corruption.
//
// The flag is the number of the use of the line, chosen by the caller. It differs from all flags
// that the line has had, and the memory is zero before its first use; so flags start at 1. After
// 2^32 - 1 uses the caller clears the memory. A line must not be written before the reader has read
// its last use; the caller ensures that, for example by two buffers in turn.
#ifndef MCCS_KERNELS_LOW_LATENCY_H_
#define MCCS_KERNELS_LOW_LATENCY_H_

#include <cstdint>
#include <cstring>

#include "kernels/elements.h"
#include "kernels/portable.h"

namespace mccs::kernels {

struct alignas(16) LowLatencyLine {
  uint64_t halves[2];  // each: data in the low 32 bits, flag in the high 32 bits
};
static_assert(sizeof(LowLatencyLine) == 16);

inline constexpr uint32_t kLowLatencyLineBytes = 8;  // of data
// Above this size a line's flags cost more time than they save.
inline constexpr uint64_t kLowLatencyMaxBytes = 32 << 10;

// Lines for `bytes` bytes of data.
constexpr MCCS_HOST_DEVICE uint64_t LowLatencyLines(uint64_t bytes) {
  return (bytes + kLowLatencyLineBytes - 1) / kLowLatencyLineBytes;
}

// Writes one line. THREAD: any; one writer per line. Never blocks.
MCCS_INLINE void StoreLine(LowLatencyLine* to, uint64_t data, uint32_t flag) {
  const uint64_t high = uint64_t{flag} << 32;
  const uint64_t first = (data & 0xffffffffu) | high;
  const uint64_t second = (data >> 32) | high;
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)),
               "l"(first), "l"(second)
               : "memory");
#else
  // Relaxed: each half carries its own flag, so they need no order. Pairs with LoadLine.
  __atomic_store_n(&to->halves[0], first, __ATOMIC_RELAXED);
  __atomic_store_n(&to->halves[1], second, __ATOMIC_RELAXED);
#endif
}

// Reads one line. Returns false if it does not have the flag yet. Pairs with StoreLine.
MCCS_INLINE bool LoadLine(const LowLatencyLine* from, uint32_t flag, uint64_t& data) {
  uint64_t first, second;
#ifdef __CUDA_ARCH__
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  first = __atomic_load_n(&from->halves[0], __ATOMIC_RELAXED);
  second = __atomic_load_n(&from->halves[1], __ATOMIC_RELAXED);
#endif
  data = (first & 0xffffffffu) | second << 32;
  return first >> 32 == flag && second >> 32 == flag;
}

namespace low_latency_internal {

// 8 bytes at `from`, or the `bytes` that are left.
MCCS_INLINE uint64_t Gather(const unsigned char* from, uint64_t bytes) {
  uint64_t data = 0;
  if (bytes >= kLowLatencyLineBytes && reinterpret_cast<uint64_t>(from) % 8 == 0) {
    memcpy(&data, __builtin_assume_aligned(from, 8), 8);
  } else {
    for (uint32_t i = 0; i < kLowLatencyLineBytes && i < bytes; ++i) {
      data |= uint64_t{from[i]} << (8 * i);
    }
  }
  return data;
}

MCCS_INLINE void Scatter(uint64_t data, unsigned char* to, uint64_t bytes) {
  if (bytes >= kLowLatencyLineBytes && reinterpret_cast<uint64_t>(to) % 8 == 0) {
    memcpy(__builtin_assume_aligned(to, 8), &data, 8);
  } else {
    for (uint32_t i = 0; i < kLowLatencyLineBytes && i < bytes; ++i) {
      to[i] = static_cast<unsigned char>(data >> (8 * i));
    }
  }
}

}  // namespace low_latency_internal

// Writes `bytes` bytes at `from` into LowLatencyLines(bytes) lines. Never blocks.
// REQUIRES: the data is this kernel's or process's own; it is read by plain loads.
MCCS_INLINE void WriteLines(const unsigned char* from, uint64_t bytes, uint32_t flag,
                            LowLatencyLine* to, Team team) {
  const uint64_t lines = LowLatencyLines(bytes);
  for (uint64_t i = team.index; i < lines; i += team.threads) {
    const uint64_t at = i * kLowLatencyLineBytes;
    StoreLine(to + i, low_latency_internal::Gather(from + at, bytes - at), flag);
  }
}

// Waits for the lines of `bytes` bytes and writes the data to `to`. Several lines are polled
// together, so that their latencies overlap. `stop()` is asked between polls that find nothing new;
// if it returns true, this returns false, and part of the data is written.
template <class Stop>
MCCS_INLINE bool ReadLines(const LowLatencyLine* from, uint64_t bytes, uint32_t flag,
                           unsigned char* to, Team team, const Stop& stop) {
  constexpr uint32_t kTogether = 4;
  const uint64_t lines = LowLatencyLines(bytes);
  for (uint64_t i = team.index; i < lines; i += uint64_t{kTogether} * team.threads) {
    uint64_t data[kTogether];
    for (;;) {
      bool all = true;
      MCCS_UNROLL for (uint32_t j = 0; j < kTogether; ++j) {
        const uint64_t line = i + uint64_t{j} * team.threads;
        if (line < lines && !LoadLine(from + line, flag, data[j])) all = false;
      }
      if (all) break;
      if (stop()) return false;
    }
    MCCS_UNROLL for (uint32_t j = 0; j < kTogether; ++j) {
      const uint64_t line = i + uint64_t{j} * team.threads;
      if (line >= lines) continue;
      const uint64_t at = line * kLowLatencyLineBytes;
      low_latency_internal::Scatter(data[j], to + at, bytes - at);
    }
  }
  return true;
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_LOW_LATENCY_H_
