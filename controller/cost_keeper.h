// Which communicators are to go by other costs than they do, as their daemons measure others
// (controller/measured_costs.h). It is in no hurry:
//
//   far apart in a look ──► and in the next one, under the same epoch ──► proposed ──► a pause,
//   each ▲                      │ no                                                        twice
//   as long └──────────────────────┘                                                           as
//   the last
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_COST_KEEPER_H_
#define MCCS_CONTROLLER_COST_KEEPER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "algorithms/cost.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "controller/registry.h"

namespace mccs {

class CostKeeper {
 public:
  static constexpr int64_t kLookEveryNs = 10 * kNsPerSec;
  static constexpr int64_t kFirstPauseNs = 60 * kNsPerSec;
  static constexpr int64_t kLongestPauseNs = 24 * 3600 * kNsPerSec;
  // Who has done less is left alone.
  static constexpr uint64_t kLeastOperations = 256;

  // One that does not calibrate brings the daemons' own costs back to those that have left them.
  CostKeeper(bool calibrates, Log* log) : calibrates_(calibrates), log_(log) {}

  struct Wish {
    CommId id;
    CostParameters costs;
  };
  // Who is to go by which costs from now on. Call as often as you like.
  std::vector<Wish> Look(const std::map<CommId, CommunicatorRecord>& communicators,
                         MonotonicNs now);

 private:
  struct Record {
    uint64_t far_under_epoch = 0;  // 0: not in the last look
    MonotonicNs left_alone_until = 0;
    int64_t pause_ns = kFirstPauseNs;
  };

  std::optional<CostParameters> LookAt(CommId id, const CommunicatorRecord& communicator,
                                       MonotonicNs now, Record* record);

  const bool calibrates_;
  Log* const log_;
  MonotonicNs next_look_ = 0;
  std::map<CommId, Record> records_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COST_KEEPER_H_
