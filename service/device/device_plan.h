// A plan that a device has loaded and runs, one operation at a time.
#ifndef MCCS_SERVICE_DEVICE_DEVICE_PLAN_H_
#define MCCS_SERVICE_DEVICE_DEVICE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "base/units.h"
#include "proto/operation.h"
#include "service/device/gpu/kernel_call.h"
#include "service/device/lane_ports.h"
#include "service/device/lane_shape.h"
#include "service/device/mem_op.h"
#include "service/device/region.h"

namespace mccs {

// The buffers of one local rank, mapped into the daemon.
struct RankMemory {
  RegionSpan input;
  RegionSpan output;
  bool scaled = false;  // multiply the rank's input by its scale, as in MemSource
  uint64_t scale_bits = 0;
  RegionSpan scale_memory = {};  // empty: scale_bits
};

// The values of one call. LIFETIME: everything pointed to outlives the run.
struct OperationBinding {
  const Geometry* geometry = nullptr;
  std::span<const RankMemory> ranks;  // by LocalIndex
  // By LocalIndex. Empty: no kernels.
  std::span<const KernelCall> kernels = {};
  uint64_t bytes = 0;  // of the call's count, per rank
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;  // as in MemOp: sum, prod, min, max
  Finish finish = Finish::kNone;
  uint64_t divisor = 1;
};

// A strategy may come from a tenant's own daemon, and with it the size of a plan.
inline constexpr uint64_t kMaxPlanBytes = 1 * kGiB;

// The inputs of Device::Load.
struct PlanToLoad {
  std::shared_ptr<const Plan> plan;
  std::vector<ProgramPorts> ports;  // by program
  LaneShape shape;                  // of all lanes
  uint32_t skew = 1;                // of IssueOrder
  uint64_t most_bytes = kMaxPlanBytes;
};

// Load's error for a plan that needs more than `most_bytes`.
absl::Status PlanTooLarge(const PlanToLoad& plan);

// OWNER: the Executor. THREAD: the owning engine only. Never blocks.
class DevicePlan {
 public:
  // REQUIRES: quiescent().
  virtual ~DevicePlan() = default;

  // Starts an operation. The counters are at the number of its first slice on each lane. Other
  // plans may run on the same lanes: each has counters of its own, and the engine gives the lanes
  // their slices one operation after the other.
  // REQUIRES: done(). LIFETIME: `binding` outlives the run.
  virtual void Start(const OperationBinding& binding) = 0;
  // Advances the operation as far as the counters of its lanes allow. Of several operations that
  // run at once, the one that started first is polled first: others may wait for it. Returns true
  // if anything moved. An error, that of a failed operation of the device, is permanent.
  virtual absl::StatusOr<bool> Poll() = 0;

  // The outputs of this host are complete, and no lane reads the tenant's memory. Slices in staging
  // memory may still be in flight.
  virtual bool done() const = 0;
  // The device uses no memory of a binding.
  virtual bool quiescent() const = 0;
  // The operation will not be finished, because its communicator has failed: without further
  // Poll(), quiescent() becomes true soon.
  virtual void Stop() {}
  // The host memory that it uses while it is loaded.
  virtual uint64_t memory_bytes() const = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_DEVICE_PLAN_H_
