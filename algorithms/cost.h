// How long an operation takes, estimated from its plan: a pure function of plan, count and a few
// figures of the machine. For ncclGroupSimulateEnd, and for choosing between plans of one call.
//
//   time = operation + hops × (hop + first slice / lane rate) + max(lane bytes / lane rate,
//                                                                   local bytes / local rate)
//
// The middle term fills the pipeline, the last one is its slowest stage. Lanes work side by side,
// the passes over local memory share the host's.
#ifndef MCCS_ALGORITHMS_COST_H_
#define MCCS_ALGORITHMS_COST_H_

#include <cstdint>

#include "algorithms/plan.h"

namespace mccs {

// The figures of the machine. The defaults are orders of magnitude of daemons on one host over
// loopback; a calibration replaces them.
struct CostParameters {
  double operation_us = 10;          // of a call without data: records, ready and done words
  double hop_us = 30;                // of a slice over a lane, besides its bytes
  double lane_bytes_per_us = 2000;   // of one lane, one direction between two hosts
  double local_bytes_per_us = 8000;  // read and written by one host's passes over its memory
};

// The call that a plan is run for.
struct PlannedCall {
  DataType type = DataType::kInt8;
  uint64_t count = 0;  // as the NCCL call counts
  uint32_t slot_bytes = 0;
};

// On the plan's own host, which may take less part in a rooted call than others.
// REQUIRES: what Geometry requires of plan and call.
double EstimateUs(const Plan& plan, const PlannedCall& call, const CostParameters& parameters);

// A send or receive of so many bytes; within a host it is one local pass.
double EstimateMessageUs(uint64_t bytes, bool crosses_hosts, const CostParameters& parameters);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_COST_H_
