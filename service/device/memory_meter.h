// Measures the bandwidth of a device on host memory. The controller uses it to calibrate the costs
// for the choice of algorithms.
//
// OWNER: the CpuDevice. THREAD: the device's owner only; work of worker threads is not measured,
// because the owner's own work is a sufficient sample.
#ifndef MCCS_SERVICE_DEVICE_MEMORY_METER_H_
#define MCCS_SERVICE_DEVICE_MEMORY_METER_H_

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "service/device/mem_op.h"

namespace mccs {

class MemoryMeter {
 public:
  static constexpr int64_t kPeriodNs = 30 * kNsPerSec;
  // Minimum bytes, read plus written, of a measured MemOp; for smaller ones reading the clock
  // counts.
  static constexpr size_t kMinBytes = 64 << 10;
  // Minimum bytes per period for a valid measurement.
  static constexpr uint64_t kMinPeriodBytes = 16 << 20;

  // `clock` null: nothing is measured. LIFETIME: `clock` outlives this.
  explicit MemoryMeter(const Clock* clock) : clock_(clock) {}

  // Executes `op`, and measures it if it is large.
  void Run(const MemOp& op);
  // Adds a measurement: `bytes` read and written between `begin` and `end`.
  void AddSample(uint64_t bytes, MonotonicNs begin, MonotonicNs end);

  // Memory bandwidth in bit/s, read plus written, averaged over the last one or two periods,
  // including the effect of other load; 0: unknown.
  uint64_t rate_bps() const;

 private:
  struct Sum {
    uint64_t bytes = 0;
    int64_t ns = 0;
  };

  const Clock* const clock_;
  MonotonicNs since_ = 0;  // start of now_
  Sum now_;
  Sum before_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEMORY_METER_H_
