// Tracks proposals and their results, for metrics and operators: which policy decided, whether all
// hosts have applied it, and how long that took.
//
//   OnProposed ──► pending ──every host reports the epoch, or a later one──► applied (timed)
//                  │ ───another proposal for the same communicator──────► superseded
//                  │ ───its leader reports that it dropped it───────────► dropped
//                  └────Prune: the communicator has ended─────────────────► (removed)
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STATE_ROLLOUTS_H_
#define MCCS_CONTROLLER_STATE_ROLLOUTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "controller/state/registry.h"
#include "proto/agent.pb.h"
#include "proto/strategy.pb.h"

namespace mccs {

// Histogram of the duration of changes.
struct ConvergenceTimes {
  // Upper bounds in seconds; the last bucket has none.
  static constexpr std::array<double, 12> kBounds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                     1,     3,     10,   30,   100, 300};
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double sum_seconds = 0;

  void Add(double seconds);
  uint64_t count() const;
};

class Rollouts {
 public:
  // A proposal that some host has not applied yet.
  struct Pending {
    uint64_t epoch = 0;
    MonotonicNs since = 0;
    std::set<std::string> awaited;  // hosts that have not reported it
    std::string leader;
  };

  // `strategy` was sent to the communicator `record`.
  void OnProposed(CommId id, const CommunicatorRecord& record, const strategy::Strategy& strategy,
                  MonotonicNs now);
  // Counts a communicator for which no policy found a strategy.
  void OnPolicyFailed() { ++failed_; }
  void OnReported(CommId id, const std::string& host, const agent::v1::Report& report,
                  MonotonicNs now);
  // Removes the proposals of communicators that have ended.
  void Prune(const std::map<CommId, CommunicatorRecord>& known);

  // Null: none.
  const Pending* FindPending(CommId id) const;
  size_t pending() const { return pending_.size(); }

  // By policy: the first word of the strategy's origin.
  const std::map<std::string, uint64_t>& by_policy() const { return by_policy_; }
  uint64_t failed() const { return failed_; }
  uint64_t superseded() const { return superseded_; }
  uint64_t dropped() const { return dropped_; }
  const ConvergenceTimes& times() const { return times_; }

 private:
  std::map<CommId, Pending> pending_;
  std::map<std::string, uint64_t> by_policy_;
  uint64_t failed_ = 0;
  uint64_t superseded_ = 0;
  uint64_t dropped_ = 0;
  ConvergenceTimes times_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_ROLLOUTS_H_
