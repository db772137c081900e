// The facts that the controller knows, by their source: agents, operators, the store, and its own
// messages. Coordinator computes from it what agents should have; operators' queries read it.
//
// OWNER: Coordinator. THREAD: its owner only, under the same lock for queries.
#ifndef MCCS_CONTROLLER_COORDINATOR_CLUSTER_STATE_H_
#define MCCS_CONTROLLER_COORDINATOR_CLUSTER_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "controller/measurement/host_clocks.h"
#include "controller/objects/object.h"
#include "controller/rates/sent_limits.h"
#include "controller/state/recovered_strategies.h"
#include "controller/state/registry.h"
#include "controller/state/unreachable_pairs.h"
#include "proto/agent.pb.h"
#include "proto/report_interval.h"

namespace mccs {

struct ClusterState {
  // ---- From agents ----

  // Hosts, and communicators with their applied strategies and reports. Also the strategies that
  // leaders were sent, until all hosts have applied them (CommunicatorRecord::proposed, awaited).
  Registry registry;
  std::map<AgentKey, std::string> host_of;  // connected agents
  HostClocks clocks;
  UnreachablePairs unreachable;
  // Rejected since they were last connected: the endpoints by the host's name, since two daemons
  // may use one name.
  std::map<std::string, std::set<std::string>> rejected;

  // ---- From operators ----

  std::shared_ptr<const ObjectSet> objects = std::make_shared<const ObjectSet>();

  // ---- Of the controller itself ----

  // End of its certificate, Unix time; 0: unknown. Nothing: it has none.
  std::optional<int64_t> certificate_end_s;

  // ---- From the store ----

  // Communicators of an earlier controller; also which strategies to store.
  RecoveredStrategies strategies;

  // ---- Sent to agents ----

  agent::v1::Tenants tenants;                          // to all
  int64_t report_every_ns = kDefaultReportIntervalNs;  // to all
  SentLimits limits;
  std::map<CommId, MonotonicNs> paused_until;  // communicators whose last proposal failed
  uint64_t policy_failures = 0;  // communicators for which no policy found a strategy, ever
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_CLUSTER_STATE_H_
