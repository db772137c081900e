// The coordinator with a mutex, for gRPC's threads. Nothing blocks and no gRPC call happens under
// the mutex: messages are sent from the outbox after it is unlocked.
#ifndef MCCS_CONTROLLER_COORDINATOR_SHARED_COORDINATOR_H_
#define MCCS_CONTROLLER_COORDINATOR_SHARED_COORDINATOR_H_

#include <mutex>
#include <utility>

#include "controller/coordinator/coordinator.h"

namespace mccs {

class SharedCoordinator {
 public:
  SharedCoordinator(CoordinatorOptions options, const Clock* clock, Log* log)
      : coordinator_(std::move(options), clock, log) {}

  // Runs `work(Coordinator&)` under the mutex and returns its result.
  template <typename Work>
  auto With(Work work) {
    const std::lock_guard lock(mutex_);
    return work(coordinator_);
  }

 private:
  std::mutex mutex_;
  Coordinator coordinator_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_SHARED_COORDINATOR_H_
