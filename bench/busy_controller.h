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

// The Topology, and a Policy of type fair_flow for all tenants.
std::shared_ptr<const ObjectSet> FairFlowObjects(std::shared_ptr<const Topology> topology);

class BusyController {
 public:
  // Has all hosts of `idle` (bench/cluster_views.h) and its single topology.
  explicit BusyController(const ClusterView& idle);

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
