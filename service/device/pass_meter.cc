#include "service/device/pass_meter.h"

#include "service/device/mem_op_kernels.h"

namespace mccs {

void PassMeter::Run(const MemOp& op) {
  const size_t bytes = BytesMoved(op);
  if (clock_ == nullptr || bytes < kLeastBytes) return RunMemOp(op);
  const MonotonicNs begin = clock_->Now();
  RunMemOp(op);
  Note(bytes, begin, clock_->Now());
}

void PassMeter::Note(uint64_t bytes, MonotonicNs begin, MonotonicNs end) {
  if (now_.bytes >= kEnoughBytes && end - since_ >= kPeriodNs) {
    before_ = now_;
    now_ = {};
  }
  if (now_.bytes == 0) since_ = end;
  now_.bytes += bytes;
  now_.ns += end - begin;
}

uint64_t PassMeter::rate_bps() const {
  Sum sum = before_;
  if (now_.bytes >= kEnoughBytes) {
    sum.bytes += now_.bytes;
    sum.ns += now_.ns;
  }
  if (sum.ns <= 0) return 0;
  constexpr double kBitsPerByte = 8;
  return static_cast<uint64_t>(kBitsPerByte * static_cast<double>(sum.bytes) * kNsPerSec /
                               static_cast<double>(sum.ns));
}

}  // namespace mccs
