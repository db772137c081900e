// Loops over float16 and bfloat16, accumulated in float32.
#include "service/device/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/kernels_half_float.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "service/device/kernel_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

void RunHalfFloatsLoops(const MemOp& op) {
  switch (op.type) {
    case DataType::kFloat16:
      return RunReduction<Float16Lane, NoFinish>(op);
    default:
      return RunReduction<Bfloat16Lane, NoFinish>(op);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs::device_internal {

HWY_EXPORT(RunHalfFloatsLoops);
void RunHalfFloats(const MemOp& op) { HWY_DYNAMIC_DISPATCH(RunHalfFloatsLoops)(op); }

}  // namespace mccs::device_internal
#endif  // HWY_ONCE
