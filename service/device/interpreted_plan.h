// A plan on a device that executes MemOps: an interpreter for each channel.
#ifndef MCCS_SERVICE_DEVICE_INTERPRETED_PLAN_H_
#define MCCS_SERVICE_DEVICE_INTERPRETED_PLAN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "service/device/device.h"
#include "service/device/device_plan.h"
#include "service/device/program_interpreter.h"

namespace mccs {

// OWNER and THREAD: as for DevicePlan.
class InterpretedPlan final : public DevicePlan {
 public:
  // As Device::Load. REQUIRES: `plan.ports` has the ports of each program.
  static absl::StatusOr<std::unique_ptr<DevicePlan>> Make(Device& device, PlanToLoad plan);

  void Start(const OperationBinding& binding) override;
  absl::StatusOr<bool> Poll() override;
  bool done() const override;
  bool quiescent() const override { return mem_ops_.outstanding == 0; }
  uint64_t memory_bytes() const override { return memory_bytes_; }

 private:
  InterpretedPlan(Device& device, PlanToLoad plan, std::vector<ProgramFacts> facts,
                  uint64_t memory_bytes);

  const PlanToLoad loaded_;
  const uint64_t memory_bytes_;
  MemOpOwner mem_ops_;
  std::deque<ProgramInterpreter> programs_;  // addresses are stable
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_INTERPRETED_PLAN_H_
