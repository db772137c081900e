// Writes the coordinator's strategies to the store and restores them at the start. Runs outside the
// agents' threads, which never wait for a disk. After a crash, changes since the last write are
// lost; agents report them again.
//
// OWNER: main. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_COORDINATOR_STRATEGY_PERSISTER_H_
#define MCCS_CONTROLLER_COORDINATOR_STRATEGY_PERSISTER_H_

#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "controller/coordinator/coordinator.h"
#include "controller/store/store.h"

namespace mccs {

class StrategyPersister {
 public:
  // LIFETIME: all outlive it.
  StrategyPersister(Store* store, SharedCoordinator* coordinator, const Clock* clock, Log* log)
      : store_(store), coordinator_(coordinator), clock_(clock), log_(log) {}

  // Call before agents connect: loads the stored strategies into the coordinator.
  absl::Status Restore();
  // Writes changes; call periodically and at the end.
  void Persist();

 private:
  Store* const store_;
  SharedCoordinator* const coordinator_;
  const Clock* const clock_;
  Log* const log_;
  RepeatedMessage failure_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_STRATEGY_PERSISTER_H_
