#include "algorithms/issue_order.h"

#include <algorithm>

namespace mccs {

IssueOrder::IssueOrder(const Program& program, uint64_t rounds, uint32_t skew)
    : program_(&program), count_(program.steps.size()) {
  EnterFirstGroup(rounds, skew);
}

IssueOrder::IssueOrder(const Program& program, std::span<const uint16_t> steps, uint64_t rounds,
                       uint32_t skew)
    : program_(&program), all_(false), steps_(steps), count_(steps.size()) {
  EnterFirstGroup(rounds, skew);
}

void IssueOrder::EnterFirstGroup(uint64_t rounds, uint32_t skew) {
  rounds_ = count_ == 0 ? 0 : rounds;
  group_rounds_ = uint64_t{skew} + 1;
  group_end_ = std::min(group_rounds_, rounds_);
  if (!done()) EnterStage(0);
}

void IssueOrder::Advance() {
  if (++position_ < stage_end_) return;
  position_ = stage_begin_;
  if (++round_ < group_end_) return;
  if (stage_end_ < count_) {
    EnterStage(stage_end_);
    return;
  }
  group_begin_ = group_end_;
  group_end_ += std::min(group_rounds_, rounds_ - group_end_);
  if (!done()) EnterStage(0);
}

void IssueOrder::EnterStage(size_t begin) {
  stage_begin_ = stage_end_ = position_ = begin;
  while (stage_end_ < count_ && StageAt(stage_end_) == StageAt(begin)) ++stage_end_;
  round_ = group_begin_;
}

}  // namespace mccs
