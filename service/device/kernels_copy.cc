// Copies: bytes from one source to all destinations.
#include "service/device/kernel_families.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/kernels_copy.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "service/device/kernel_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

void RunCopyLoops(const MemOp& op) { RunLoop<PlainLane<uint8_t>, SumOf, NoFinish>(op); }

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs::device_internal {

HWY_EXPORT(RunCopyLoops);
void RunCopy(const MemOp& op) { HWY_DYNAMIC_DISPATCH(RunCopyLoops)(op); }

}  // namespace mccs::device_internal
#endif  // HWY_ONCE
