// Which classes of lanes are at work on one NIC. Of two lanes that could both send, the one of the
// higher class does: while a lane of a higher class has bytes on the way or ready to go, those of
// lower classes let a trickle through, of kTrickleBytes each kTrickleEveryNs. What a lane's own
// gate holds back counts for nothing, so a class that is capped leaves the rest of the NIC to the
// others.
//
// It is not known here where the bytes stand in line: a lane waits for a higher class on its NIC
// also where that one is slowed down behind it.
//
// OWNER: HostPacing. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_PACING_NIC_CLASSES_H_
#define MCCS_SERVICE_PACING_NIC_CLASSES_H_

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "service/pacing/pace.h"

namespace mccs {

class NicClasses {
 public:
  static constexpr int64_t kTrickleEveryNs = 5 * kNsPerMs;
  static constexpr uint64_t kTrickleBytes = 8u << 10;
  // How often a lane that lets others go first looks whether they have gone.
  static constexpr int64_t kLookAgainNs = 500 * kNsPerUs;

  void Enter(uint32_t priority) { ++busy_[priority]; }
  void Leave(uint32_t priority) { --busy_[priority]; }
  bool HigherThan(uint32_t priority) const {
    for (uint32_t p = priority + 1; p <= kMaxPriority; ++p) {
      if (busy_[p] > 0) return true;
    }
    return false;
  }

 private:
  std::array<int, kMaxPriority + 1> busy_{};  // lanes
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_NIC_CLASSES_H_
