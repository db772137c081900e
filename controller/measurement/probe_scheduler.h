// Schedules probes: what daemons have found about flows' paths, which requests are open, and when
// to probe again (docs/decisions/0036-probing-paths.md).
//
// clang-format off
//   target ──TakeDueProbes──► requested ──Handle──► known ──kRefreshNs, or a link change──► requested again,
//     ▲                           │                                                        if a lane uses the port
//     └────────kRetryNs───────────┴── no answer, or an error
// clang-format on
//
// A result is valid until the next answer. OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_MEASUREMENT_PROBE_SCHEDULER_H_
#define MCCS_CONTROLLER_MEASUREMENT_PROBE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "controller/measurement/probe_targets.h"
#include "controller/state/registry.h"
#include "proto/agent.pb.h"
#include "topology/hop_path.h"

namespace mccs {

class ProbeScheduler {
 public:
  // Timeout of a request. Each daemon has one at a time.
  static constexpr int64_t kTimeoutNs = 15 * kNsPerSec;
  static constexpr size_t kMaxFlowsPerRequest = 64;
  // Results for lanes in use are refreshed after this time.
  static constexpr int64_t kRefreshNs = 60 * kNsPerSec;
  // Failed probes are retried after this time.
  static constexpr int64_t kRetryNs = 30 * kNsPerSec;
  // Results that no lane uses are dropped after this time.
  static constexpr int64_t kExpireNs = 600 * kNsPerSec;
  static constexpr size_t kMaxKnown = 1'000'000;

  // `first_request_id`: CoordinatorOptions::first_request_id. LIFETIME: `log` outlives it.
  ProbeScheduler(Log* log, uint64_t first_request_id) : log_(log), next_(first_request_id) {}

  // For policies' views. Never null.
  std::shared_ptr<const ProbedPaths> known() const { return known_; }

  // Sets the flows whose paths policies need.
  void SetTargets(std::vector<ProbeTarget> targets, MonotonicNs now);
  // Requests for hosts that are ready and have no open request.
  std::vector<std::pair<AgentKey, agent::v1::Probe>> TakeDueProbes(const Registry& registry,
                                                                   MonotonicNs now);
  // True: a result has changed. Ignores answers to other requests or from other hosts.
  bool Handle(const std::string& host, const agent::v1::Probed& probed, MonotonicNs now);
  // The host's stream has ended: its open request fails.
  void OnHostLost(const std::string& host);

  // Links may have changed, for flows from this host or for all flows. Flows in use are probed
  // again at once; without `host`, other results are dropped.
  void LinksChanged(const std::string& host);
  void LinksChanged();

 private:
  struct Entry {
    MonotonicNs due = 0;          // time of the next request
    MonotonicNs received_at = 0;  // time of the result
  };
  struct Request {
    uint64_t number = 0;
    std::vector<FiveTuple> flows;
    MonotonicNs until = 0;
  };

  // True: the result has changed.
  bool Record(const FiveTuple& flow, const Hops& hops, MonotonicNs now);
  void LogFailure(const std::string& host, const std::string& why);
  void Remove(MonotonicNs now);

  Log* const log_;
  std::shared_ptr<const ProbedPaths> known_ = std::make_shared<const ProbedPaths>();
  std::map<FiveTuple, Entry> entries_;  // of all targets and known flows
  std::vector<ProbeTarget> targets_;
  std::map<std::string, Request> open_;            // by host
  std::map<std::string, std::string> last_error_;  // by host: last logged error
  uint64_t next_;                                  // number of the next request
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_MEASUREMENT_PROBE_SCHEDULER_H_
