// A plan on a device that executes MemOps: an interpreter for each channel.
#ifndef MCCS_SERVICE_DEVICE_INTERPRETED_PLAN_H_
#define MCCS_SERVICE_DEVICE_INTERPRETED_PLAN_H_

#include <deque>

#include "service/device/device.h"
#include "service/device/device_plan.h"
#include "service/device/program_interpreter.h"

namespace mccs {

// OWNER and THREAD: as for DevicePlan.
class InterpretedPlan final : public DevicePlan {
 public:
  // REQUIRES: `plan.ports` has the ports of each program. LIFETIME: the device outlives it.
  InterpretedPlan(Device& device, PlanToLoad plan);

  void Start(const OperationBinding& binding) override;
  absl::StatusOr<bool> Poll() override;
  bool done() const override;
  bool quiescent() const override { return mem_ops_.outstanding == 0; }

 private:
  const PlanToLoad loaded_;
  MemOpOwner mem_ops_;
  std::deque<ProgramInterpreter> programs_;  // addresses are stable
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_INTERPRETED_PLAN_H_
