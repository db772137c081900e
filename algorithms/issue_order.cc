#include "algorithms/issue_order.h"

#include <algorithm>

namespace mccs {

IssueOrder::IssueOrder(const Program& program, uint64_t rounds, uint32_t skew)
    : program_(&program),
      rounds_(program.steps.empty() ? 0 : rounds),
      group_rounds_(uint64_t{skew} + 1) {
  group_end_ = std::min(group_rounds_, rounds_);
  EnterStage(0);
}

bool IssueOrder::Next(StepInstance* out) {
  if (group_begin_ == rounds_) return false;
  *out = {.round = round_, .step = static_cast<uint16_t>(step_)};
  if (++step_ < stage_end_) return true;
  step_ = stage_begin_;
  if (++round_ < group_end_) return true;
  if (stage_end_ == program_->steps.size()) {
    group_begin_ = group_end_;
    group_end_ += std::min(group_rounds_, rounds_ - group_end_);
    EnterStage(0);
  } else {
    EnterStage(stage_end_);
  }
  return true;
}

void IssueOrder::EnterStage(size_t begin) {
  const auto& steps = program_->steps;
  stage_begin_ = stage_end_ = step_ = begin;
  while (stage_end_ < steps.size() && steps[stage_end_].stage == steps[begin].stage) ++stage_end_;
  round_ = group_begin_;
}

}  // namespace mccs
