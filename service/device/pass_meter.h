// How fast a device on host memory passes over it. For the controller, which calibrates the costs
// by which algorithms are chosen.
//
// OWNER: the CpuDevice. THREAD: the device's owner only; what workers run is not measured, and what
// the owner runs itself is a sample of the same.
#ifndef MCCS_SERVICE_DEVICE_PASS_METER_H_
#define MCCS_SERVICE_DEVICE_PASS_METER_H_

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "service/device/mem_op.h"

namespace mccs {

class PassMeter {
 public:
  static constexpr int64_t kPeriodNs = 30 * kNsPerSec;
  // Read and written. Of smaller ones the two looks at the clock would be a part.
  static constexpr size_t kLeastBytes = 64 << 10;
  // Less in a period says nothing.
  static constexpr uint64_t kEnoughBytes = 16 << 20;

  // Null: nothing is measured. LIFETIME: `clock` outlives this.
  explicit PassMeter(const Clock* clock) : clock_(clock) {}

  // Does `op`, and measures it where it is large.
  void Run(const MemOp& op);
  // So many bytes were read and written between `begin` and `end`.
  void Note(uint64_t bytes, MonotonicNs begin, MonotonicNs end);

  // Bits read and written in a second, on the average of the last one or two periods, with what
  // else the processors had to do; 0: not known.
  uint64_t rate_bps() const;

 private:
  struct Sum {
    uint64_t bytes = 0;
    int64_t ns = 0;
  };

  const Clock* const clock_;
  MonotonicNs since_ = 0;  // of now_
  Sum now_;
  Sum before_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_PASS_METER_H_
