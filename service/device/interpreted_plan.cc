#include "service/device/interpreted_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccs {

InterpretedPlan::InterpretedPlan(Device& device, PlanToLoad plan) : loaded_(std::move(plan)) {
  MCCS_CHECK(loaded_.ports.size() == loaded_.plan->programs.size());
  for (size_t i = 0; i < loaded_.plan->programs.size(); ++i) {
    programs_.emplace_back(device, loaded_, i, mem_ops_);
  }
}

void InterpretedPlan::Start(const OperationBinding& binding) {
  for (ProgramInterpreter& program : programs_) program.Start(binding);
}

absl::StatusOr<bool> InterpretedPlan::Poll() {
  if (!mem_ops_.status.ok()) return mem_ops_.status;
  bool moved = false;
  for (ProgramInterpreter& program : programs_) moved |= program.Poll();
  return moved;
}

bool InterpretedPlan::done() const {
  return std::ranges::all_of(programs_, [](const auto& program) { return program.done(); });
}

}  // namespace mccs
