#include "base/check.h"
#include "service/device/kernel_families.h"
#include "service/device/mem_op.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/device/mem_op_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mccs::device_internal {
namespace HWY_NAMESPACE {

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace mccs::device_internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccs {
namespace device_internal {

HWY_EXPORT(TargetName);

namespace {

const char* ChosenTargetName() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

void CheckInvariants(const MemOp& op) {
  MCCS_CHECK(!op.sources.empty() && op.sources.size() <= kMaxMemOpSources);
  MCCS_CHECK(!op.destinations.empty());
  MCCS_CHECK(op.op <= ReduceOp::kMax);
  MCCS_CHECK(op.finish == Finish::kNone || (!IsFloat(op.type) && op.divisor != 0));
}

bool IsCopy(const MemOp& op) {
  return op.sources.size() == 1 && !op.sources[0].scaled && op.finish == Finish::kNone;
}

void RunCopyOfBytes(MemOp op) {
  op.elements *= SizeOf(op.type);
  op.type = DataType::kUint8;
  RunCopy(op);
}

bool SignMatters(const MemOp& op) {
  return op.op == ReduceOp::kMin || op.op == ReduceOp::kMax || op.finish == Finish::kDivide;
}

void RunReductionOfType(const MemOp& op) {
  switch (op.type) {
    case DataType::kInt8:
    case DataType::kInt32:
    case DataType::kInt64:
      return SignMatters(op) ? RunSignedIntegers(op) : RunUnsignedIntegers(op);
    case DataType::kUint8:
    case DataType::kUint32:
    case DataType::kUint64:
      return RunUnsignedIntegers(op);
    case DataType::kFloat32:
    case DataType::kFloat64:
      return RunWideFloats(op);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return RunHalfFloats(op);
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return RunByteFloats(op);
  }
}

}  // namespace
}  // namespace device_internal

void RunMemOp(const MemOp& op) {
  device_internal::CheckInvariants(op);
  if (op.elements == 0) return;
  if (device_internal::IsCopy(op)) {
    device_internal::RunCopyOfBytes(op);
  } else {
    device_internal::RunReductionOfType(op);
  }
}

std::string KernelTargetName() { return device_internal::ChosenTargetName(); }

}  // namespace mccs
#endif  // HWY_ONCE
