// Loops over int8, int32 and int64.
#include "service/device/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/kernels_signed.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "service/device/kernel_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

void RunSignedIntegersLoops(const MemOp& op) {
  switch (op.type) {
    case DataType::kInt8:
      return RunReduction<PlainLane<int8_t>, Divider>(op);
    case DataType::kInt32:
      return RunReduction<PlainLane<int32_t>, Divider>(op);
    default:
      return RunReduction<PlainLane<int64_t>, Divider>(op);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs::device_internal {

HWY_EXPORT(RunSignedIntegersLoops);
void RunSignedIntegers(const MemOp& op) { HWY_DYNAMIC_DISPATCH(RunSignedIntegersLoops)(op); }

}  // namespace mccs::device_internal
#endif  // HWY_ONCE
