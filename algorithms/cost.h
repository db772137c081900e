// How long an operation takes, estimated from its plan: a pure function of plan, count and a few
// figures of the machine. For ncclGroupSimulateEnd, and for choosing between plans of one call.
//
//   time = operation + hops × (hop + first slice / lane rate)
//          + max(lane bytes / lane rate,
//                slices × slice + host bytes / host rate + local bytes / local rate)
//
// The middle term fills the pipeline, the last one is its slowest stage. Lanes work side by side;
// what a host does itself, it does one after the other.
#ifndef MCCS_ALGORITHMS_COST_H_
#define MCCS_ALGORITHMS_COST_H_

#include <cstdint>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

// The figures of the machine. The defaults are of daemons on one host over loopback
// (docs/results/algorithms.md); a calibration replaces them.
struct CostParameters {
  double operation_us = 10;          // of a call without data: records, ready and done words
  double hop_us = 10;                // of a slice over a lane, besides its bytes
  double slice_us = 4;               // that a host is busy with one that it sends or receives
  double lane_bytes_per_us = 2000;   // of one lane, one direction between two hosts
  double host_bytes_per_us = 2000;   // of all lanes out of a host, or into it
  double local_bytes_per_us = 8000;  // read and written by one host's passes over its memory
  friend bool operator==(const CostParameters&, const CostParameters&) = default;
};

// The call that a plan is run for.
struct PlannedCall {
  DataType type = DataType::kInt8;
  uint64_t count = 0;  // as the NCCL call counts
  uint32_t slot_bytes = 0;
};

// What a host does in one round of a channel; pieces and operands are slices of one block each.
struct ProgramWeight {
  int hops = 0;  // that the last slice has behind it
  int slices = 0;
  int slice_pieces = 0;  // of the largest
  int lane_pieces = 0;   // over the busiest lane
  int out_pieces = 0;    // over all lanes
  int in_pieces = 0;
  int operands = 0;  // of combines
};

// All that the estimate needs to know of a plan, whatever the count.
struct PlanWeight {
  Plan frame;  // its programs are empty
  std::vector<ProgramWeight> programs;
};

PlanWeight Weigh(const Plan& plan);

// On the plan's own host, which may take less part in a rooted call than others. All blocks count
// as long as the first.
// REQUIRES: what Geometry requires of plan and call.
double EstimateUs(const PlanWeight& weight, const PlannedCall& call,
                  const CostParameters& parameters);
double EstimateUs(const Plan& plan, const PlannedCall& call, const CostParameters& parameters);

// A send or receive of so many bytes; within a host it is one local pass.
double EstimateMessageUs(uint64_t bytes, bool crosses_hosts, const CostParameters& parameters);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_COST_H_
