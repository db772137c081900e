#include "controller/coordinator/strategy_persister.h"

#include <string>
#include <utility>

#include "base/status_macros.h"

namespace mccs {

absl::Status StrategyPersister::Restore() {
  MCCS_ASSIGN_OR_RETURN(const StoredState state, store_->Load());
  coordinator_->With([&](Coordinator& c) { c.strategies().Load(state.strategies); });
  return absl::OkStatus();
}

void StrategyPersister::Persist() {
  StrategyChanges changes =
      coordinator_->With([](Coordinator& c) { return c.strategies().TakeChanges(c.registry()); });
  if (changes.empty()) return;
  StoreChange change;
  change.put_strategies = changes.put;
  change.erase_strategies = changes.erase;
  const absl::Status kept = store_->Commit(change);
  if (kept.ok()) return;
  coordinator_->With([&](Coordinator& c) { c.strategies().RestoreChanges(changes); });
  const std::string why(kept.message());
  if (failure_.IsDue(why, clock_->Now())) log_->Error("cannot store strategies: ", why);
}

}  // namespace mccs
