// Loops over uint8, uint32 and uint64; sum and product of the signed types have the same bits.
#include "service/device/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/kernels_unsigned.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "service/device/kernel_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

void RunUnsignedIntegersLoops(const MemOp& op) {
  switch (op.type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return RunReduction<PlainLane<uint8_t>, Divider>(op);
    case DataType::kInt32:
    case DataType::kUint32:
      return RunReduction<PlainLane<uint32_t>, Divider>(op);
    default:
      return RunReduction<PlainLane<uint64_t>, Divider>(op);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs::device_internal {

HWY_EXPORT(RunUnsignedIntegersLoops);
void RunUnsignedIntegers(const MemOp& op) { HWY_DYNAMIC_DISPATCH(RunUnsignedIntegersLoops)(op); }

}  // namespace mccs::device_internal
#endif  // HWY_ONCE
