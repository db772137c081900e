// Combine for the host: plain loops, which the compiler turns into vectors. Each has one operator
// and one format, and runs over a tile of accumulators in the L1 cache. They are compiled for
// several instruction sets. The results do not depend on the choice, since no operation is fused.
#include "kernels/host_combine.h"

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

}  // namespace
}  // namespace mccs::kernels

#define MCCS_HOST_LOOPS baseline
#include "kernels/host_loops-inl.h"
#undef MCCS_HOST_LOOPS

// The sets of service/device/kernel_families.h. Sanitizers multiply the compile time.
#if defined(__x86_64__) && !defined(MCCS_SANITIZED)
#define MCCS_WIDE_HOST_LOOPS 1

#pragma GCC push_options
#pragma GCC target("avx2")
#define MCCS_HOST_LOOPS avx2
#include "kernels/host_loops-inl.h"
#undef MCCS_HOST_LOOPS
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define MCCS_HOST_LOOPS avx512
#include "kernels/host_loops-inl.h"
#undef MCCS_HOST_LOOPS
#pragma GCC pop_options
#endif

namespace mccs::kernels {
namespace {

using RunLoops = void (*)(const Call& call, uint64_t elements, Team team);

// The loops that this machine can run, best first.
struct SupportedLoops {
  SupportedLoops() {
#ifdef MCCS_WIDE_HOST_LOOPS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      run[count++] = avx512::Run;
    }
    if (__builtin_cpu_supports("avx2")) run[count++] = avx2::Run;
#endif
    run[count++] = baseline::Run;
  }

  uint32_t count = 0;
  RunLoops run[3];
};

const SupportedLoops& Loops() {
  static const SupportedLoops loops;
  return loops;
}

}  // namespace

uint32_t HostInstructionSets() { return Loops().count; }

void CombineOnHost(uint32_t set, const ElementOp& op, const Source* sources, uint32_t source_count,
                   unsigned char* const* destinations, uint32_t destination_count,
                   uint64_t elements, Team team) {
  const Call call{op, sources, source_count, destinations, destination_count};
  if (IsCopy(op, sources, source_count)) {
    return CopyBytes(call, RangeOf(elements * SizeOf(op.type), team));
  }
  Loops().run[set](call, elements, team);
}

void Combine(const ElementOp& op, const Source* sources, uint32_t source_count,
             unsigned char* const* destinations, uint32_t destination_count, uint64_t elements,
             Team team) {
  CombineOnHost(0, op, sources, source_count, destinations, destination_count, elements, team);
}

}  // namespace mccs::kernels
