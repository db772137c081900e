// A controller's coordinator with a cluster full of jobs, for benchmarks: no network, and agents
// that take up at once what is proposed.
#ifndef MCCS_BENCH_BUSY_CONTROLLER_H_
#define MCCS_BENCH_BUSY_CONTROLLER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "controller/cluster_view.h"
#include "controller/coordinator.h"
#include "topology/topology.h"

namespace mccs {

// Its Topology, and a Policy fair_flow for all.
std::shared_ptr<const ObjectSet> FairFlowObjects(std::shared_ptr<const Topology> topology);

class BusyController {
 public:
  // With all hosts of `idle` (bench/cluster_views.h) and its one topology.
  explicit BusyController(const ClusterView& idle);

  // Has the controller hear of communicators that work, plan them, and plan until nothing changes.
  void Start(const std::vector<CommunicatorView>& jobs);

  // The message of an agent that `job` waits for its strategy, or is at its end.
  void HearOf(const CommunicatorView& job) { Announce(job, /*running=*/false); }
  void HearEndOf(CommId id);
  // The periodic call in which others are planned anew.
  void Tick() { coordinator_.Tick(); }
  // Agents take up what they were told. Returns how many proposals that were.
  int Adopt();

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
