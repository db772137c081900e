// The arithmetic of collectives as one call, on host and GPU.
//
// The results are those of RunMemOp (service/device/mem_op.h, docs/decisions/0003-numerics.md). On
// the host they are equal in all bits, except that a sum or product of two NaNs is any NaN. A GPU
// has its own NaN: where RunMemOp's result is a NaN, its result may be another NaN.
#ifndef MCCS_KERNELS_ELEMENTS_H_
#define MCCS_KERNELS_ELEMENTS_H_

#include <cstdint>

#include "kernels/portable.h"
#include "proto/operation.h"

namespace mccs::kernels {

// One input. A scale multiplies each element before it is accumulated; it is a value of the
// operation's type: in the low bytes of `scale_bits`, or in memory at `scale_address`, which need
// not be aligned. It may be read several times.
struct Source {
  const unsigned char* address;
  uint64_t scale_bits;
  const unsigned char* scale_address;  // null: scale_bits
  bool scaled;
};

struct ElementOp {
  DataType type;
  ReduceOp op;       // kSum, kProd, kMin or kMax
  bool divides;      // integers: divides the accumulated value by `divisor`, towards zero
  uint64_t divisor;  // not 0 if `divides`; less than 2^63
};

// Whether a call copies bits.
MCCS_INLINE bool IsCopy(const ElementOp& op, const Source* sources, uint32_t source_count) {
  return source_count == 1 && !sources[0].scaled && !op.divides;
}

// Thread `index` of the `threads` threads that execute a call together: all threads of a block or
// of several blocks; on the host mostly thread 0 of 1. All of them pass the same other arguments.
// They do not wait for each other.
struct Team {
  uint32_t index;
  uint32_t threads;
};

// Reads each source once, accumulates element by element in the order of the sources, and writes
// each destination once. One source without scale and division is a copy of bits. Floats of 16 and
// 8 bits are accumulated in float32 and rounded once, to nearest even.
//
// REQUIRES: at least one source and one destination; `elements` elements at each address, aligned
// to the element. A destination may be one of the sources exactly; otherwise no overlap. On a GPU:
// the elements are in memory that the GPU addresses as global (its own, a peer's, or pinned host
// memory); `sources` and `destinations` are in any memory, and shared memory is the fastest.
// At most 512 threads per block (__launch_bounds__): the loops need 128 registers.
// ENSURES: the calling thread's part is written on return. On a GPU the sources are read as the
// other GPUs and processes last wrote them, if the caller has seen their flag. The destinations are
// written by weak stores: to publish them, all threads of the team synchronize, and one releases a
// flag at system scope.
MCCS_HOST_DEVICE void Combine(const ElementOp& op, const Source* sources, uint32_t source_count,
                              unsigned char* const* destinations, uint32_t destination_count,
                              uint64_t elements, Team team);

}  // namespace mccs::kernels

#ifdef __CUDACC__
#include "kernels/vector_combine.h"

namespace mccs::kernels {

// nvcc compiles the loops for the GPU only; the host's are in kernels/host_combine.cc.
inline MCCS_HOST_DEVICE void Combine(const ElementOp& op, const Source* sources,
                                     uint32_t source_count, unsigned char* const* destinations,
                                     uint32_t destination_count, uint64_t elements, Team team) {
  CombineByVectors(op, sources, source_count, destinations, destination_count, elements, team);
}

}  // namespace mccs::kernels
#endif  // __CUDACC__

#endif  // MCCS_KERNELS_ELEMENTS_H_
