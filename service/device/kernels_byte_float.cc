// Loops over float8e4m3 and float8e5m2, accumulated in float32.
#include "service/device/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/kernels_byte_float.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "service/device/kernel_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

void RunByteFloatsLoops(const MemOp& op) {
  switch (op.type) {
    case DataType::kFloat8e4m3:
      return op.op == ReduceOp::kProd ? RunLoop<Float8E4m3Lane<0>, ProductOf, NoFinish>(op)
                                      : RunReduction<Float8E4m3Lane<8>, NoFinish>(op);
    default:
      return RunReduction<Float8E5m2Lane, NoFinish>(op);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs::device_internal {

HWY_EXPORT(RunByteFloatsLoops);
void RunByteFloats(const MemOp& op) { HWY_DYNAMIC_DISPATCH(RunByteFloatsLoops)(op); }

}  // namespace mccs::device_internal
#endif  // HWY_ONCE
