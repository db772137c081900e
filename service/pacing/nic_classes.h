// The classes of lanes that are busy on one NIC. While a lane of a higher class has bytes in flight
// or ready to send, lanes of lower classes may only send a trickle: kTrickleBytes each
// kTrickleEveryNs. A lane that its own gate blocks does not count as busy, so a class with a cap
// leaves the rest of the NIC to the others.
//
// The bottleneck's place is not known here: a lane waits for a higher class on its NIC even if that
// one is slowed down elsewhere.
//
// OWNER: HostPacing. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_PACING_NIC_CLASSES_H_
#define MCCS_SERVICE_PACING_NIC_CLASSES_H_

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "service/pacing/rate_limits.h"

namespace mccs {

class NicClasses {
 public:
  static constexpr int64_t kTrickleEveryNs = 5 * kNsPerMs;
  static constexpr uint64_t kTrickleBytes = 8u << 10;
  // Polling interval of a lane that yields to a higher class.
  static constexpr int64_t kPollIntervalNs = 500 * kNsPerUs;

  void Enter(uint32_t priority) { ++busy_[priority]; }
  void Leave(uint32_t priority) { --busy_[priority]; }
  bool HasHigherThan(uint32_t priority) const {
    for (uint32_t p = priority + 1; p <= kMaxPriority; ++p) {
      if (busy_[p] > 0) return true;
    }
    return false;
  }

 private:
  std::array<int, kMaxPriority + 1> busy_{};  // lanes, by class
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_NIC_CLASSES_H_
