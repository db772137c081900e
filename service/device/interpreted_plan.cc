#include "service/device/interpreted_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccs {

absl::StatusOr<std::unique_ptr<DevicePlan>> InterpretedPlan::Make(Device& device, PlanToLoad plan) {
  std::vector<ProgramFacts> facts;
  uint64_t bytes = 0;
  for (const Program& program : plan.plan->programs) {
    facts.push_back(FactsOf(*plan.plan, program));
    bytes += ProgramInterpreter::MemoryBytes(program, facts.back(), plan.skew);
    if (bytes > plan.most_bytes) return PlanTooLarge(plan);
  }
  return std::unique_ptr<DevicePlan>(
      new InterpretedPlan(device, std::move(plan), std::move(facts), bytes));
}

InterpretedPlan::InterpretedPlan(Device& device, PlanToLoad plan, std::vector<ProgramFacts> facts,
                                 uint64_t memory_bytes)
    : loaded_(std::move(plan)), memory_bytes_(memory_bytes) {
  MCCS_CHECK(loaded_.ports.size() == loaded_.plan->programs.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    programs_.emplace_back(device, loaded_, i, std::move(facts[i]), mem_ops_);
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
