// What the controller has proposed, and what became of it, for its metrics and for operators: which
// policy decided, whether all hosts have gone over, and how long that took.
//
//   Proposed ──► pending ──every host reports the epoch, or a later one──► in force (timed)
//                   │ ───another proposal of the same communicator───────► superseded
//                   │ ───its leader reports that it gave it up──────────────► dropped
//                   └──Prune: the communicator is gone───────────────────► (forgotten)
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_ROLLOUTS_H_
#define MCCS_CONTROLLER_ROLLOUTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "controller/registry.h"
#include "proto/agent.pb.h"
#include "proto/strategy.pb.h"

namespace mccs {

// How long changes took, in buckets.
struct ConvergenceTimes {
  // Upper bounds in seconds; behind the last one there is no bound.
  static constexpr std::array<double, 12> kBounds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                     1,     3,     10,   30,   100, 300};
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double sum_seconds = 0;

  void Add(double seconds);
  uint64_t count() const;
};

class Rollouts {
 public:
  // A proposal that is not in force on all hosts yet.
  struct Pending {
    uint64_t epoch = 0;
    MonotonicNs since = 0;
    std::set<std::string> awaited;  // hosts that have not reported it
    std::string leader;
  };

  // `strategy` is on its way to the communicator `record`.
  void Proposed(CommId id, const CommunicatorRecord& record, const strategy::Strategy& strategy,
                MonotonicNs now);
  // No policy could decide for a communicator.
  void Failed() { ++failed_; }
  void Reported(CommId id, const std::string& host, const agent::Report& report, MonotonicNs now);
  // Forgets what is pending of communicators that are gone.
  void Prune(const std::map<CommId, CommunicatorRecord>& known);

  // Null: nothing is.
  const Pending* FindPending(CommId id) const;
  size_t pending() const { return pending_.size(); }

  // By policy: the first word of the strategies' origin.
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

#endif  // MCCS_CONTROLLER_ROLLOUTS_H_
