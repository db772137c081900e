// The interface between RunMemOp and the files with the compiled loops. Private to service/device.
//
// Each family is in a file of its own, so that they compile in parallel.
#ifndef MCCS_SERVICE_DEVICE_KERNEL_FAMILIES_H_
#define MCCS_SERVICE_DEVICE_KERNEL_FAMILIES_H_

#include "service/device/mem_op.h"

// Instruction sets that the loops are compiled for on x86: AVX3 (AVX-512 of Skylake and later),
// AVX2, and scalar code for older processors. The sets between would add compile time, and no
// server of the last ten years needs them. Builds with sanitizers, which compile these loops
// several times more slowly, omit AVX3 too.
#ifdef MCCS_SANITIZED
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif

namespace mccs::device_internal {

void RunCopy(const MemOp& op);              // one source, unscaled, no division: bytes of any type
void RunUnsignedIntegers(const MemOp& op);  // uint8 uint32 uint64, and sum/prod of the signed ones
void RunSignedIntegers(const MemOp& op);    // int8 int32 int64: min, max and all divisions
void RunWideFloats(const MemOp& op);        // float32 float64
void RunHalfFloats(const MemOp& op);        // float16 bfloat16
void RunByteFloats(const MemOp& op);        // float8e4m3 float8e5m2

}  // namespace mccs::device_internal

#endif  // MCCS_SERVICE_DEVICE_KERNEL_FAMILIES_H_
