// A cursor over IssueOrder (issue_order.h) for any list of steps with stages, and the numbers of
// slices that follow from the order. Also for GPU kernels.
#ifndef MCCS_ALGORITHMS_ISSUE_CURSOR_H_
#define MCCS_ALGORITHMS_ISSUE_CURSOR_H_

#include <cstddef>
#include <cstdint>

#include "base/portable.h"

namespace mccs {

struct StepInstance {
  uint64_t round = 0;
  uint16_t step = 0;
};

// `Steps`: a cheap value with `size_t size()`, `uint16_t step(position)` and `uint16_t
// stage(position)`; stages never decrease. Never allocates; constant time per step.
template <typename Steps>
class IssueCursor {
 public:
  // At the end of an empty order.
  IssueCursor() = default;
  MCCS_HOST_DEVICE IssueCursor(const Steps& steps, uint64_t rounds, uint32_t skew)
      : steps_(steps),
        rounds_(steps.size() == 0 ? 0 : rounds),
        group_rounds_(uint64_t{skew} + 1),
        group_end_(Least(group_rounds_, rounds_)) {
    if (!done()) EnterStage(0);
  }

  MCCS_HOST_DEVICE bool done() const { return group_begin_ == rounds_; }
  // REQUIRES: !done().
  MCCS_HOST_DEVICE StepInstance current() const { return {round_, steps_.step(position_)}; }
  MCCS_HOST_DEVICE void Advance() {
    if (++position_ < stage_end_) return;
    position_ = stage_begin_;
    if (++round_ < group_end_) return;
    if (stage_end_ < steps_.size()) {
      EnterStage(stage_end_);
      return;
    }
    group_begin_ = group_end_;
    group_end_ += Least(group_rounds_, rounds_ - group_end_);
    if (!done()) EnterStage(0);
  }

  // Whether the order has passed a step of a round. `position`: among the steps.
  MCCS_HOST_DEVICE bool Passed(uint64_t round, size_t position) const {
    if (done() || round < group_begin_) return true;
    if (round >= group_end_ || position >= stage_end_) return false;
    if (position < stage_begin_) return true;
    return round < round_ || (round == round_ && position < position_);
  }

 private:
  MCCS_HOST_DEVICE void EnterStage(size_t begin) {
    stage_begin_ = stage_end_ = position_ = begin;
    while (stage_end_ < steps_.size() && steps_.stage(stage_end_) == steps_.stage(begin))
      ++stage_end_;
    round_ = group_begin_;
  }

  Steps steps_{};
  uint64_t rounds_ = 0;
  uint64_t group_rounds_ = 0;
  uint64_t group_begin_ = 0;  // first round of the group
  uint64_t group_end_ = 0;
  size_t stage_begin_ = 0;  // positions of the stage
  size_t stage_end_ = 0;
  uint64_t round_ = 0;  // the current instance
  size_t position_ = 0;
};

// The group of a round.
struct RoundGroup {
  uint64_t begin = 0;  // the first round
  uint64_t size = 0;   // rounds
};
// REQUIRES: round < rounds.
MCCS_HOST_DEVICE inline RoundGroup GroupOf(uint64_t round, uint64_t rounds, uint32_t skew) {
  const uint64_t group_rounds = uint64_t{skew} + 1;
  const uint64_t begin = round - round % group_rounds;
  return {begin, Least(group_rounds, rounds - begin)};
}

// The position of a send or receive in its lane.
struct LanePosition {
  uint32_t lane = 0;      // among the lanes of its direction
  uint32_t before = 0;    // steps of the lane in earlier stages
  uint32_t in_stage = 0;  // steps of the lane in the same stage
  uint32_t index = 0;     // among those
};

// The number of the slice of the step at `position` in `round`, counted over one run.
// REQUIRES: `group` is that of the round.
MCCS_HOST_DEVICE inline uint64_t SliceIndex(const LanePosition& position, uint64_t lane_steps,
                                            const RoundGroup& group, uint64_t round) {
  return group.begin * lane_steps + position.before * group.size +
         (round - group.begin) * position.in_stage + position.index;
}

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ISSUE_CURSOR_H_
