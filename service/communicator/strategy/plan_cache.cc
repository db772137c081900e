#include "service/communicator/strategy/plan_cache.h"

#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::GetOrBuild(const PlanKey& key) {
  if (!by_use_.empty() && by_use_.front()->key == key) return by_use_.front();
  if (auto known = plans_.find(key); known != plans_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, known->second);
    return by_use_.front();
  }
  MCCS_ASSIGN_OR_RETURN(Plan built, BuildPlan(key, layout_, orders_, self_));
  if (by_use_.size() == kMaxCachedPlans) {
    plans_.erase(by_use_.back()->key);
    by_use_.pop_back();
  }
  by_use_.push_front(std::make_shared<const Plan>(std::move(built)));
  plans_.emplace(key, by_use_.begin());
  return by_use_.front();
}

}  // namespace mccs
