// The run-time parameters of a plan: the values of one call.
#ifndef MCCS_SERVICE_EXECUTOR_OPERATION_BINDING_H_
#define MCCS_SERVICE_EXECUTOR_OPERATION_BINDING_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "proto/operation.h"
#include "service/device/device.h"
#include "service/transport/lane.h"

namespace mccs {

// The buffers of one local rank, mapped into the daemon.
struct RankMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool scaled = false;  // multiply the rank's input by its scale, as in MemSource
  uint64_t scale_bits = 0;
  const std::byte* scale_address = nullptr;
};

// LIFETIME: everything pointed to outlives the run.
struct OperationBinding {
  const Plan* plan = nullptr;
  const Geometry* geometry = nullptr;
  std::span<const RankMemory> ranks;  // by LocalIndex
  uint64_t bytes = 0;                 // of the call's count, per rank
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;  // as in MemOp: sum, prod, min, max
  Finish finish = Finish::kNone;
  uint64_t divisor = 1;
  SliceTag tag{};     // tag of every slice; the peer's must be equal
  uint32_t skew = 1;  // for IssueOrder
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_OPERATION_BINDING_H_
