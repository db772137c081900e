// A controller's coordinator with a fully loaded cluster, for benchmarks: no network, and agents
// that accept proposals immediately.
#ifndef MCCS_BENCH_BUSY_CONTROLLER_H_
#define MCCS_BENCH_BUSY_CONTROLLER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "controller/coordinator/coordinator.h"
#include "controller/view/cluster_view.h"
#include "topology/topology.h"

namespace mccs {

// Which Policies there are: fair_flow for all communicators, the same except for one with
// locality_ring, or locality_ring for all.
enum class PolicyMix { kFairFlow, kOneRing, kRings };

// The Topology and these Policies.
std::shared_ptr<const ObjectSet> ObjectsFor(std::shared_ptr<const Topology> topology,
                                            PolicyMix mix = PolicyMix::kFairFlow);

class BusyController {
 public:
  // Has all hosts of `idle` (bench/cluster_views.h) and its single topology.
  BusyController(const ClusterView& idle, PolicyMix mix);

  // Reports running communicators to the controller and plans until nothing changes.
  void Start(const std::vector<CommunicatorView>& jobs);

  // Sends an agent's message: `job` waits for its strategy.
  void ReportWaiting(const CommunicatorView& job) { Announce(job, /*running=*/false); }
  // Sends an agent's message: communicator `id` has ended.
  void ReportEnd(CommId id);
  // The periodic call that replans other communicators.
  void Tick() { coordinator_.Tick(); }
  // Accepts all proposals on behalf of the agents. Returns their number.
  int AcceptProposals();

  const Coordinator& coordinator() const { return coordinator_; }

 private:
  struct StillClock final : Clock {
    MonotonicNs Now() const override { return kNsPerSec; }
  };

  static AgentKey AgentOf(const std::string& host);
  void Register(const HostView& host);
  void Announce(const CommunicatorView& job, bool running);

  const StillClock clock_;
  const std::unique_ptr<Log> log_;
  Coordinator coordinator_;
};

}  // namespace mccs

#endif  // MCCS_BENCH_BUSY_CONTROLLER_H_
