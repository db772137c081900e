// Estimates the duration of an operation: a pure function of plan, count and some parameters of the
// machine. For ncclGroupSimulateEnd, and for the choice between plans of one call.
//
//   time = operation + hops × (hop + first slice / lane rate)
//          + max(lane bytes / lane rate,
//                slices × slice + host bytes / host rate + local bytes / local rate)
//
// The middle term fills the pipeline, the last one is its slowest stage. Lanes work in parallel;
// the work of a host itself is serial.
#ifndef MCCS_ALGORITHMS_COST_H_
#define MCCS_ALGORITHMS_COST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

// Parameters of the machine. The defaults are for daemons on one host over loopback
// (docs/results/algorithms.md); calibration replaces them.
struct CostParameters {
  double operation_us = 10;          // per call, without data: records, ready and done words
  double hop_us = 10;                // per slice and lane, without its bytes
  double slice_us = 4;               // host's time per slice sent or received
  double lane_bytes_per_us = 2000;   // of one lane (one direction between two hosts)
  double host_bytes_per_us = 2000;   // of all lanes out of a host, or into it
  double local_bytes_per_us = 8000;  // memory bandwidth of one host, read plus written
  friend bool operator==(const CostParameters&, const CostParameters&) = default;
};

// The call for which a plan is run.
struct PlannedCall {
  DataType type = DataType::kInt8;
  uint64_t count = 0;  // as in the NCCL call
  uint32_t slot_bytes = 0;
};

// A host's work in the rounds of a channel that take all parts once; pieces and operands are slices
// of one block each.
struct ProgramWeight {
  int hops = 0;          // of the last slice
  int slices = 0;        // in each round
  int slice_pieces = 0;  // of one part in the largest slice
  int lane_pieces = 0;   // on the busiest lane
  int out_pieces = 0;    // on all lanes
  int in_pieces = 0;
  int operands = 0;  // of combines
};

// The properties of a plan that the estimate uses, for any count.
struct PlanWeight {
  Plan frame;  // its programs are empty
  std::vector<ProgramWeight> programs;
};

PlanWeight Weigh(const Plan& plan);

// Weighs a plan in short parts: it may have millions of combines.
class PlanWeighing {
 public:
  explicit PlanWeighing(std::shared_ptr<const Plan> plan);

  bool done() const { return weight_.programs.size() == plan_->programs.size(); }
  // Weighs the next steps. Returns about how many parts of a plan are built in the same time; at
  // most kPartsAtOnce, and those of one step. REQUIRES: !done().
  uint64_t WeighNext();
  // REQUIRES: done().
  PlanWeight Take() { return std::move(weight_); }

 private:
  void Add(const Step& step);

  std::shared_ptr<const Plan> plan_;
  PlanWeight weight_;
  size_t next_step_ = 0;  // of the program in progress
  ProgramWeight program_;
  // Pieces by HostIndex of the peer.
  std::vector<int> sent_;
  std::vector<int> received_;
};

// For the plan's own host, which may have less work in a rooted call than others. All blocks count
// with the length of the first.
// REQUIRES: what Geometry requires of plan and call.
double EstimateUs(const PlanWeight& weight, const PlannedCall& call,
                  const CostParameters& parameters);
double EstimateUs(const Plan& plan, const PlannedCall& call, const CostParameters& parameters);

// A send or receive of `bytes` bytes; within a host it is one local memory pass.
double EstimateMessageUs(uint64_t bytes, bool crosses_hosts, const CostParameters& parameters);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_COST_H_
