// The order in which the steps of all rounds of one program are issued: in groups of rounds.
//
// skew + 1 successive rounds form a group. The order is group by group, within a group stage by
// stage, within a stage round by round, within a round as in the program. Three stages, skew 1:
//
//   a0 a1 b0 b1 c0 c1 │ a2 a3 b2 b3 c2 c3 │ …
//
// So between two hops of one round the lane sends `skew` slices of other rounds, which do not
// depend on the first. It does not run dry between groups either, because stage 0 waits for
// nothing. Both ends of a lane use the same order: their hops have the same order of stages, so the
// k-th send of one is the k-th receive of the other.
//
// Required: skew < slots. The receiver frees the slot of a slice skew + 1 slices later in its own
// order. If skew + 1 > slots, a host may have to send before it can free a slot, while its peer has
// no free slot either: a deadlock around the ring.
// Recommended: about half the slots (2 of 4, 4 of 8). With less the lane idles during the latency
// of a hop, with more it runs out of slots.
//
// (A wavefront, key round + skew × stage, would put as many slices between two hops as a round has
// sends, 2(H−1) for an all-reduce over H hosts, and would need slots in proportion.)
#ifndef MCCS_ALGORITHMS_ISSUE_ORDER_H_
#define MCCS_ALGORITHMS_ISSUE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "algorithms/issue_cursor.h"
#include "algorithms/plan.h"

namespace mccs {

// All steps of a program, or some of them.
class ProgramSteps {
 public:
  ProgramSteps() = default;
  explicit ProgramSteps(const Program& program)
      : program_(&program), count_(program.steps.size()) {}
  // Ascending positions in the program.
  ProgramSteps(const Program& program, std::span<const uint16_t> steps)
      : program_(&program), steps_(steps.data()), count_(steps.size()) {}

  size_t size() const { return count_; }
  uint16_t step(size_t position) const {
    return steps_ == nullptr ? static_cast<uint16_t>(position) : steps_[position];
  }
  uint16_t stage(size_t position) const { return program_->steps[step(position)].stage; }

 private:
  const Program* program_ = nullptr;
  const uint16_t* steps_ = nullptr;  // null: all
  size_t count_ = 0;
};

// LIFETIME: the program and the list of steps outlive the cursor.
class IssueOrder : public IssueCursor<ProgramSteps> {
 public:
  IssueOrder() = default;
  // REQUIRES: stages never decrease from step to step.
  IssueOrder(const Program& program, uint64_t rounds, uint32_t skew)
      : IssueCursor(ProgramSteps(program), rounds, skew) {}
  // The same order, of `steps` alone: ascending positions in the program.
  IssueOrder(const Program& program, std::span<const uint16_t> steps, uint64_t rounds,
             uint32_t skew)
      : IssueCursor(ProgramSteps(program, steps), rounds, skew) {}
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ISSUE_ORDER_H_
