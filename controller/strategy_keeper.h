// Brings the coordinator's strategies into the store and, at the start, back. Apart from the
// agents' threads, which never wait for a disk: what the last period brought is lost with the
// process, and told again by the agents.
//
// OWNER: main. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STRATEGY_KEEPER_H_
#define MCCS_CONTROLLER_STRATEGY_KEEPER_H_

#include "base/clock.h"
#include "base/log.h"
#include "base/repeated_sentence.h"
#include "controller/shared_coordinator.h"
#include "controller/store/store.h"

namespace mccs {

class StrategyKeeper {
 public:
  // LIFETIME: all outlive it.
  StrategyKeeper(Store* store, SharedCoordinator* coordinator, const Clock* clock, Log* log)
      : store_(store), coordinator_(coordinator), clock_(clock), log_(log) {}

  // Before agents connect: the coordinator remembers what the store holds.
  absl::Status Restore();
  // Writes what has changed; call from time to time, and at the end.
  void Keep();

 private:
  Store* const store_;
  SharedCoordinator* const coordinator_;
  const Clock* const clock_;
  Log* const log_;
  RepeatedSentence failure_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STRATEGY_KEEPER_H_
