#include "service/communicator/plan_cache.h"

#include <utility>

#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<const Plan*> PlanCache::GetOrBuild(const PlanKey& key) {
  if (last_ != nullptr && last_->key == key) return last_;
  std::unique_ptr<const Plan>& plan = plans_[key];
  if (plan == nullptr) {
    MCCS_ASSIGN_OR_RETURN(Plan built, BuildRingPlan(key, layout_, orders_, self_));
    plan = std::make_unique<const Plan>(std::move(built));
  }
  return last_ = plan.get();
}

}  // namespace mccs
