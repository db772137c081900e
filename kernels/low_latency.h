// Short data with a flag in each store: one transfer instead of data, fence, flag.
//
// A thread of the host stores lines of 16 bytes into its memory, which a kernel polls.
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

#include "base/portable.h"
#include "kernels/portable.h"

namespace mccs::kernels {

struct alignas(16) LowLatencyLine {
  uint64_t halves[2];  // each: data in the low 32 bits, flag in the high 32 bits
};
static_assert(sizeof(LowLatencyLine) == 16);

inline constexpr uint32_t kLowLatencyLineBytes = 8;  // of data

// Lines for `bytes` bytes of data.
constexpr MCCS_HOST_DEVICE uint64_t LowLatencyLines(uint64_t bytes) {
  return (bytes + kLowLatencyLineBytes - 1) / kLowLatencyLineBytes;
}

// Writes one line. Release. THREAD: any of the host; one writer per line. Never blocks.
inline void StoreLine(LowLatencyLine* to, uint64_t data, uint32_t flag) {
  const uint64_t high = uint64_t{flag} << 32;
  const uint64_t first = (data & 0xffffffffu) | high;
  const uint64_t second = (data >> 32) | high;
  // Each half carries its own flag, so they need no order among themselves. Pairs with LoadLine.
  __atomic_store_n(&to->halves[0], first, __ATOMIC_RELEASE);
  __atomic_store_n(&to->halves[1], second, __ATOMIC_RELEASE);
}

// Reads one line. Returns false if it does not have the flag yet. Acquire on the host; a GPU calls
// AcquireLines. Pairs with StoreLine.
MCCS_INLINE bool LoadLine(const LowLatencyLine* from, uint32_t flag, uint64_t& data) {
  uint64_t first, second;
#ifdef __CUDA_ARCH__
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  first = __atomic_load_n(&from->halves[0], __ATOMIC_ACQUIRE);
  second = __atomic_load_n(&from->halves[1], __ATOMIC_ACQUIRE);
#endif
  data = (first & 0xffffffffu) | second << 32;
  return first >> 32 == flag && second >> 32 == flag;
}

// A thread that has loaded lines sees from now on all that their writer had seen. So do the others
// of its block when they have synchronized.
MCCS_HOST_DEVICE inline void AcquireLines() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

// Writes `bytes` bytes at `from`, which are aligned to 8, into LowLatencyLines(bytes) lines; what
// follows them in the last line is 0.
inline void WriteLines(const void* from, uint64_t bytes, uint32_t flag, LowLatencyLine* to) {
  const auto* source = static_cast<const unsigned char*>(from);
  for (uint64_t at = 0; at < bytes; at += kLowLatencyLineBytes, ++to) {
    uint64_t data = 0;
    memcpy(&data, source + at, Least<uint64_t>(bytes - at, kLowLatencyLineBytes));
    StoreLine(to, data, flag);
  }
}

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_LOW_LATENCY_H_
