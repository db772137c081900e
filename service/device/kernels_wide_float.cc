// Loops over float32 and float64.
#include "service/device/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/kernels_wide_float.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "service/device/kernel_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

void RunWideFloatsLoops(const MemOp& op) {
  switch (op.type) {
    case DataType::kFloat32:
      return RunReduction<PlainLane<float>, NoFinish>(op);
    default:
      return RunReduction<PlainLane<double>, NoFinish>(op);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs::device_internal {

HWY_EXPORT(RunWideFloatsLoops);
void RunWideFloats(const MemOp& op) { HWY_DYNAMIC_DISPATCH(RunWideFloatsLoops)(op); }

}  // namespace mccs::device_internal
#endif  // HWY_ONCE
