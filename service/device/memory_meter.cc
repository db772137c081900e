#include "service/device/memory_meter.h"

#include "service/device/mem_op.h"

namespace mccs {

void MemoryMeter::Run(const MemOp& op) {
  const size_t bytes = BytesMoved(op);
  if (clock_ == nullptr || bytes < kMinBytes) return RunMemOp(op);
  const MonotonicNs begin = clock_->Now();
  RunMemOp(op);
  AddSample(bytes, begin, clock_->Now());
}

void MemoryMeter::AddSample(uint64_t bytes, MonotonicNs begin, MonotonicNs end) {
  if (now_.bytes >= kMinPeriodBytes && end - since_ >= kPeriodNs) {
    before_ = now_;
    now_ = {};
  }
  if (now_.bytes == 0) since_ = end;
  now_.bytes += bytes;
  now_.ns += end - begin;
}

uint64_t MemoryMeter::rate_bps() const {
  Sum sum = before_;
  if (now_.bytes >= kMinPeriodBytes) {
    sum.bytes += now_.bytes;
    sum.ns += now_.ns;
  }
  if (sum.ns <= 0) return 0;
  constexpr double kBitsPerByte = 8;
  return static_cast<uint64_t>(kBitsPerByte * static_cast<double>(sum.bytes) * kNsPerSec /
                               static_cast<double>(sum.ns));
}

}  // namespace mccs
