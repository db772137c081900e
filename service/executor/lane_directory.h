// The inputs of a plan's run: the lanes that it names and the values of one call.
#ifndef MCCS_SERVICE_EXECUTOR_OPERATION_BINDING_H_
#define MCCS_SERVICE_EXECUTOR_OPERATION_BINDING_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "base/ids.h"
#include "proto/operation.h"
#include "service/device/device.h"
#include "service/transport/lane.h"

namespace mccs {

// Gives the executor the lanes that a plan names.
//
// THREAD: the owning engine only. Never blocks.
class LaneDirectory {
 public:
  virtual ~LaneDirectory() = default;

  // The lane to or from `peer` on `channel`. Creates it on first use and returns the same one each
  // time. kResourceExhausted: no memory for its slots.
  // LIFETIME: as long as the directory.
  virtual SendLane* SendTo(ChannelId channel, HostIndex peer) = 0;
  virtual absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId channel, HostIndex peer) = 0;
  // Memory of slots × slot_bytes to compose slices for that lane before they are sent; allocated by
  // the first call. Errors as above.
  virtual absl::StatusOr<MemRef> StagingTo(ChannelId channel, HostIndex peer) = 0;
};

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
