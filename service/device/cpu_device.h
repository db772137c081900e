// The device of a machine without a GPU: tenants' "device memory" is host memory, and MemOps run on
// processor cores.
//
// OWNER: the daemon. THREAD: as for Device; it has `workers` threads of its own, which sleep when
// idle.
#ifndef MCCS_SERVICE_DEVICE_CPU_DEVICE_H_
#define MCCS_SERVICE_DEVICE_CPU_DEVICE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "service/device/device.h"
#include "service/device/memory_mapper.h"
#include "service/device/memory_meter.h"
#include "service/device/worker_pool.h"

namespace mccs {

struct CpuDeviceOptions {
  // Threads. 0: Submit executes the operation at once in the calling thread, deterministically.
  int workers = 0;
  // Maximum number of operations submitted and not yet returned by Poll().
  size_t max_in_flight = 256;
  // Operations that read and write fewer bytes in total run inside Submit().
  size_t inline_bytes = 128 << 10;
  // Measures the memory bandwidth; null: not measured. LIFETIME: outlives the device.
  const Clock* clock = nullptr;
};

// If no operation has finished, Poll() runs part of a queued operation itself: call it while
// operations are in flight, also with workers.
class CpuDevice final : public Device {
 public:
  // `runner` null: tenants' memory is mapped and unmapped synchronously.
  CpuDevice(const CpuDeviceOptions& options, std::unique_ptr<MemoryImporter> importer,
            std::unique_ptr<MappingRunner> runner = nullptr);
  // REQUIRES: no caller waits for operations in flight; operations that have not started are
  // dropped.
  ~CpuDevice() override;

  MemoryMapper& mapper() override { return mapper_; }
  absl::StatusOr<std::unique_ptr<Region>> Allocate(size_t bytes) override;
  void Discard(std::span<std::byte> bytes) override;
  absl::StatusOr<std::unique_ptr<DevicePlan>> Load(PlanToLoad plan) override;
  Submitted Submit(const MemOp& op, MemToken token) override;
  Polled Poll(std::span<Finished> finished) override;
  uint64_t memory_bps() const override { return meter_.rate_bps(); }
  std::string Description() const override;

 private:
  const CpuDeviceOptions options_;
  MemoryMapper mapper_;
  MemoryMeter meter_;                 // outlives the pool
  size_t in_flight_ = 0;              // in the pool
  std::unique_ptr<WorkerPool> pool_;  // null: no workers, all operations run inside Submit()
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_CPU_DEVICE_H_
