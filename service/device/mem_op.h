// The daemon's only compute primitive, as data.
#ifndef MCCS_SERVICE_DEVICE_MEM_OP_H_
#define MCCS_SERVICE_DEVICE_MEM_OP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/operation.h"

namespace mccs {

// One input of a MemOp. A scale multiplies each element before it is accumulated; it is a value of
// the MemOp's type: in the low bytes of `scale_bits`, or on the device at `scale_address`, which
// need not be aligned. The device reads it while the MemOp runs, possibly several times.
struct MemSource {
  const std::byte* address = nullptr;
  bool scaled = false;
  uint64_t scale_bits = 0;
  const std::byte* scale_address = nullptr;  // null: scale_bits
};

// Operation on the accumulated value before it is written.
enum class Finish : uint8_t {
  kNone,
  kDivide,  // integers: by MemOp::divisor, towards zero (ncclAvg of integers)
};

// Reads each source once, accumulates element by element in the order of `sources`, and writes each
// destination once. One source is a copy. Floats of 16 and 8 bits are accumulated in float32 and
// rounded once, to nearest even.
//
// REQUIRES: at least one source and one destination; `elements` elements at each address, aligned
// to the element. A destination may be one of the sources exactly; otherwise no overlap.
// `op` is kSum, kProd, kMin or kMax. NaN in kMin/kMax: the other operand wins, as in CUDA's fmin
// and fmax.
// LIFETIME: the spans and the memory they refer to, until Poll() returns the token.
struct MemOp {
  std::span<const MemSource> sources;
  std::span<std::byte* const> destinations;
  uint64_t elements = 0;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  Finish finish = Finish::kNone;
  uint64_t divisor = 1;
  // A hint: the destinations are not sources and are not read soon, so the device may bypass the
  // caches. For a tenant's output of an operation larger than the caches; not for staging memory.
  bool stream = false;
};

// Bytes read plus bytes written.
inline size_t BytesMoved(const MemOp& op) {
  return op.elements * SizeOf(op.type) * (op.sources.size() + op.destinations.size());
}

inline constexpr size_t kMaxMemOpSources = 140;  // 128 local ranks and 12 receive slots

// The submitter's name for a submitted MemOp.
using MemToken = uint64_t;

// Splits one MemOp into parts of bounded size, so that the owner can do other work in between.
//
// THREAD: one at a time.
class MemOpParts {
 public:
  // Bytes read and written by one part: some tens of microseconds on a processor.
  static constexpr size_t kPartBytes = 256 << 10;

  // REQUIRES: done().
  void Begin(const MemOp& op);
  // The next part, in the order of the elements. Valid until the next call. REQUIRES: !done().
  MemOp Next();
  // Whether Next has returned all elements.
  bool done() const { return begun_ == op_.elements; }

 private:
  MemOp op_;
  uint64_t begun_ = 0;  // elements that Next has returned
  std::vector<MemSource> sources_;
  std::vector<std::byte*> destinations_;
};

// Executes `op` on host memory, from start to end, in the calling thread. The loops are compiled
// for several instruction sets (Highway), and the best one that this machine supports is chosen at
// run time. Results do not depend on the choice.
// THREAD: any; different threads may run different operations at once.
// REQUIRES: the requirements of MemOp; a divisor only for integers, and not 0. (Violations abort.)
// ENSURES: all destinations are written on return, non-temporal stores included.
void RunMemOp(const MemOp& op);

// Highway's name of the instruction set in use, such as "AVX3".
std::string KernelTargetName();

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEM_OP_H_
