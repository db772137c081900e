// In which order the steps of all rounds of one program are taken up: in groups of rounds.
//
// skew + 1 successive rounds make a group. Group after group, within a group stage after stage,
// within a stage round after round, within a round as the program says. Three stages, skew 1:
//
//   a0 a1 b0 b1 c0 c1 │ a2 a3 b2 b3 c2 c3 │ …
//
// So between two hops of one round the lane has `skew` slices of other rounds, which do not wait
// for the first to be answered; nor does it run dry between groups, as stage 0 waits for nobody.
// Both ends of a lane walk the same order: their hops come in the same order of stages, so the k-th
// send of one is the k-th receive of the other.
//
// Legal: skew < slots of the lanes. The step that takes a slice out of its slot comes skew + 1
// slices later in the receiver's own order; were that more than `slots`, the receiver might have to
// send first what its peer cannot take for want of slots, and so on round the ring: a circle.
// Good: about half the slots (2 of 4, 4 of 8). With less the lane idles for the latency of a hop,
// with more it runs out of slots.
//
// (A wavefront, key round + skew × stage, lets as many slices as a round has sends, 2(H−1) for an
// all-reduce over H hosts, come between two hops: it would need slots in that measure.)
#ifndef MCCS_ALGORITHMS_ISSUE_ORDER_H_
#define MCCS_ALGORITHMS_ISSUE_ORDER_H_

#include <cstddef>
#include <cstdint>

#include "algorithms/plan.h"

namespace mccs {

struct StepInstance {
  uint64_t round = 0;
  uint16_t step = 0;
};

// A cursor over the order. Never allocates; a step costs constant time.
// LIFETIME: the program outlives the cursor.
class IssueOrder {
 public:
  // REQUIRES: stages never fall from step to step.
  IssueOrder(const Program& program, uint64_t rounds, uint32_t skew);

  // False at the end.
  bool Next(StepInstance* out);

 private:
  void EnterStage(size_t begin);

  const Program* program_;
  uint64_t rounds_;
  uint64_t group_rounds_;
  uint64_t group_begin_ = 0;  // first round of the group
  uint64_t group_end_ = 0;
  size_t stage_begin_ = 0;  // steps of the stage
  size_t stage_end_ = 0;
  uint64_t round_ = 0;  // next instance
  size_t step_ = 0;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ISSUE_ORDER_H_
