// Updates the costs of communicators whose daemons measure other costs than they use
// (controller/planning/measured_costs.h). It waits between updates:
//
// clang-format off
//   far apart in one check ──► and in the next, same epoch ──► proposed ──► pause, each twice as
//          ▲                      │ no                                     long as the last
//          └──────────────────────┘
// clang-format on
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_MEASUREMENT_COST_CALIBRATOR_H_
#define MCCS_CONTROLLER_MEASUREMENT_COST_CALIBRATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "algorithms/cost.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "controller/state/registry.h"

namespace mccs {

class CostCalibrator {
 public:
  static constexpr int64_t kCheckEveryNs = 10 * kNsPerSec;
  static constexpr int64_t kFirstPauseNs = 60 * kNsPerSec;
  static constexpr int64_t kLongestPauseNs = 24 * 3600 * kNsPerSec;
  // Communicators with fewer operations are skipped.
  static constexpr uint64_t kLeastOperations = 256;

  // `calibrates` false: restores the daemons' own costs where they were changed.
  CostCalibrator(bool calibrates, Log* log) : calibrates_(calibrates), log_(log) {}

  struct CostUpdate {
    CommId id;
    CostParameters costs;
  };
  // Communicators that need other costs now. May be called at any rate.
  std::vector<CostUpdate> FindUpdates(const std::map<CommId, CommunicatorRecord>& communicators,
                                      MonotonicNs now);

 private:
  struct Record {
    uint64_t far_under_epoch = 0;  // 0: not far apart in the last check
    MonotonicNs paused_until = 0;
    int64_t pause_ns = kFirstPauseNs;
  };

  std::optional<CostParameters> CheckCommunicator(CommId id, const CommunicatorRecord& communicator,
                                                  MonotonicNs now, Record* record);

  const bool calibrates_;
  Log* const log_;
  MonotonicNs next_check_ = 0;
  std::map<CommId, Record> records_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_MEASUREMENT_COST_CALIBRATOR_H_
