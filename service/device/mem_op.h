// The one compute primitive of the daemon, as data.
#ifndef MCCS_SERVICE_DEVICE_MEM_OP_H_
#define MCCS_SERVICE_DEVICE_MEM_OP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/operation.h"

namespace mccs {

// One input of a MemOp. A scale multiplies each element before it is accumulated; it is a value of
// the MemOp's type: in the low bytes of `scale_bits`, or on the device at `scale_address`, which
// need not be aligned. The device reads it there while the MemOp runs, perhaps several times.
struct MemSource {
  const std::byte* address = nullptr;
  bool scaled = false;
  uint64_t scale_bits = 0;
  const std::byte* scale_address = nullptr;  // null: scale_bits
};

// What happens to the accumulated value before it is written.
enum class Finish : uint8_t {
  kNone,
  kDivide,  // integers: by MemOp::divisor, towards zero (ncclAvg of integers)
};

// The one compute primitive: reads each source once, accumulates element by element in the order of
// `sources`, writes each destination once. One source is a copy. Floats of 16 and 8 bits are
// accumulated in float32 and rounded once, to nearest even.
//
// REQUIRES: at least one source and one destination; `elements` elements at each address, aligned to
// the element. A destination may be one of the sources exactly; otherwise no overlap.
// `op` is kSum, kProd, kMin or kMax. NaN in kMin/kMax: as CUDA's fmin/fmax, the other operand wins.
// LIFETIME: the spans and what they point to, until the token comes back from Poll().
struct MemOp {
  std::span<const MemSource> sources;
  std::span<std::byte* const> destinations;
  uint64_t elements = 0;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  Finish finish = Finish::kNone;
  uint64_t divisor = 1;
  // A hint: nobody reads the destinations soon and they are no sources, so they need not pass
  // through the caches. For a tenant's output of an operation larger than the caches; not for
  // staging.
  bool stream = false;
};

// Read and written.
inline size_t BytesMoved(const MemOp& op) {
  return op.elements * SizeOf(op.type) * (op.sources.size() + op.destinations.size());
}

inline constexpr size_t kMaxMemOpSources = 130;  // 128 local ranks and two receive slots

// Names a submitted MemOp to its submitter.
using MemToken = uint64_t;

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEM_OP_H_
