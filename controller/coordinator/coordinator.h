// The controller's reaction to each message of an agent. It has no network and no threads: messages
// come in by calls and go out through the outbox, so that a simulator can run it unchanged.
//
// OWNER: main. THREAD: one at a time; agent_hub.h and operator_service.h hold a mutex around it.
#ifndef MCCS_CONTROLLER_COORDINATOR_COORDINATOR_H_
#define MCCS_CONTROLLER_COORDINATOR_COORDINATOR_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wall_clock.h"
#include "controller/coordinator/pending_dumps.h"
#include "controller/coordinator/registration.h"
#include "controller/measurement/cost_calibrator.h"
#include "controller/measurement/host_clocks.h"
#include "controller/measurement/probe_scheduler.h"
#include "controller/objects/object_set.h"
#include "controller/planning/planner.h"
#include "controller/rates/sent_limits.h"
#include "controller/rates/window_scheduler.h"
#include "controller/state/controller_events.h"
#include "controller/state/drains.h"
#include "controller/state/recovered_strategies.h"
#include "controller/state/registry.h"
#include "controller/state/rollouts.h"
#include "controller/state/view_cache.h"
#include "proto/agent.pb.h"

namespace mccs {

struct CoordinatorOptions {
  int64_t heartbeat_timeout_ns = 5 * kNsPerSec;
  std::string version;  // shown to operators
  // Higher than all revisions that earlier controllers sent in RateLimits (proto/agent.proto).
  uint64_t last_pace_revision = 0;
  // Agents' times are compared with it; null: no check. LIFETIME: it outlives the coordinator.
  const WallClock* wall_clock = nullptr;
  // Whether costs follow the daemons' measurements.
  bool calibrate_costs = true;
};

// For one agent: a message, or the end of its stream.
struct Outgoing {
  AgentKey to;
  std::optional<agent::v1::ToAgent> message;
  absl::Status end;  // used if there is no message
};

class Coordinator {
 public:
  // Heartbeats per timeout; more than one, so that a late one does no harm.
  static constexpr int kHeartbeatsPerTimeout = 3;
  static constexpr int64_t kOrphanTimeoutNs = 600 * kNsPerSec;
  // A proposal without any reply expires after this time. A communicator whose leader rejected one
  // gets no other for the same time.
  static constexpr int64_t kProposalTimeoutNs = 30 * kNsPerSec;
  // After a restart, old rate limits are lifted only after this time. By then daemons have
  // reconnected, clocks are known, and periods for send windows are found.
  static constexpr int64_t kLiftOldLimitsAfterNs = 10 * kNsPerSec;

  // LIFETIME: clock and log outlive it.
  Coordinator(CoordinatorOptions options, const Clock* clock, Log* log);

  // Handles a message of `agent`; the first must be Register. A protocol error ends the stream.
  void Handle(AgentKey agent, const agent::v1::FromAgent& message);
  // The stream of `agent` has ended.
  void OnStreamClosed(AgentKey agent, const std::string& why);
  // Call several times per heartbeat timeout: hosts without a message for too long become lost.
  void Tick();

  std::vector<Outgoing> TakeOutbox();

  // Asks the daemon of `host` for its state; TakeAnswers returns the answer within seconds. Errors
  // as in PendingDumps::Add.
  absl::StatusOr<uint64_t> RequestState(const std::string& host);
  std::vector<StateAnswer> TakeAnswers() { return dumps_.TakeAnswers(); }

  // Sets the operators' objects and sends proposals to all communicators that they change.
  void SetObjects(std::shared_ptr<const ObjectSet> objects);
  const ObjectSet& objects() const { return *objects_; }
  // The decisions for the objects of `revision`, without strategies. Nothing: the current objects
  // are older or newer.
  std::optional<Decisions> DecisionsFor(uint64_t revision) const;

  // For the audit log: decisions since the last call.
  std::vector<ControllerEvent> TakeEvents() { return events_.Take(); }

  // For operators' queries.
  std::shared_ptr<const ProbedPaths> probed() const { return probes_.known(); }

  const Registry& registry() const { return registry_; }
  const Rollouts& rollouts() const { return rollouts_; }
  const HostClocks& clocks() const { return clocks_; }
  const WindowScheduler& windows() const { return windows_; }
  // For the store.
  RecoveredStrategies& strategies() { return strategies_; }
  // Communicators of an earlier controller that no daemon has announced yet.
  const RecoveredCommunicators& recovered() const { return strategies_.recovered(); }
  // Input of policies: the registry, recovered communicators and probed paths.
  ClusterView View() const;
  const std::string& version() const { return options_.version; }
  MonotonicNs Now() const { return clock_->Now(); }

 private:
  void HandleRegister(AgentKey agent, const agent::v1::Register& registration);
  void HandleAnnounce(const std::string& host, const agent::v1::Announce& announce);
  void HandleHeartbeat(AgentKey agent, const std::string& host, const agent::v1::Heartbeat& beat);
  void HandleReport(const std::string& host, const agent::v1::Report& report);
  // Proposes a strategy to each communicator that should run another one. Returns the decisions,
  // without strategies.
  Decisions Replan();
  // Makes the next Tick call Replan, because of `why`.
  void RequestReplan(std::string why);
  // As ResolveView(View(), objects()), cached until something changes.
  const ClusterView& ResolvedView() { return view_cache_.Get(objects_, probes_.known()); }
  void Propose(CommId id, strategy::Strategy strategy);
  // Decides how fast communicators may send with the strategies of `view`, and sends it.
  void UpdateRateLimits(const ClusterView& view);
  // Records which guarantees links cannot hold now.
  void RecordUnmetGuarantees(std::set<std::string> broken);
  // Sends hosts the changed rate limits and send windows.
  void SendRateLimits();
  // Converts send windows to the clock of `host`; removes them if that clock is not known.
  agent::v1::RateLimits ToHostClock(const std::string& host, agent::v1::RateLimits limits) const;
  // Asks daemons for the paths that policies need.
  void SendProbes();
  // The proposal to `id` failed: sends no other one for a while.
  void PauseProposals(CommId id, const std::string& why);
  void ExpireProposals();
  void ExpireDisconnected();
  void Refuse(AgentKey agent, const agent::v1::Host& host, const absl::Status& why);
  // Whether it is the first refusal since the host was last connected.
  bool IsFirstRefusal(const agent::v1::Host& host);
  // Refuses daemons whose Topology is gone, or does not have their host any more.
  void RefuseMisplacedHosts();
  // Sends all agents the Tenants, if they have changed.
  void SendTenants();
  // Appends a message to `agent`; the caller fills it in before the next call.
  agent::v1::ToAgent& AddMessage(AgentKey agent);
  void End(AgentKey agent, absl::Status why);

  const CoordinatorOptions options_;
  const Clock* const clock_;
  Log* const log_;
  const MonotonicNs started_;
  Registry registry_;
  Rollouts rollouts_;
  PendingDumps dumps_;
  RecoveredStrategies strategies_;
  SentLimits sent_limits_;
  bool lifts_old_limits_ = false;                  // kLiftOldLimitsAfterNs have passed
  std::vector<PlannedRateLimits> planned_limits_;  // without send windows
  std::set<std::string> unmet_guarantees_;         // guarantees, as last logged
  HostClocks clocks_;
  WindowScheduler windows_;
  CostCalibrator costs_;
  ProbeScheduler probes_;
  std::shared_ptr<const ObjectSet> objects_ = std::make_shared<const ObjectSet>();
  ViewCache view_cache_{&registry_, &strategies_};
  Planner plan_;
  Decisions decided_;                        // when objects_ was set
  agent::v1::Tenants tenants_;               // as last sent to agents
  std::map<AgentKey, std::string> host_of_;  // registered agents
  // Refused since they were last connected; by name and endpoint, since two daemons may use one
  // name.
  std::set<std::pair<std::string, std::string>> refused_;
  std::vector<std::string> replan_;  // reasons to replan; the first ones only
  ControllerEvents events_;
  std::map<CommId, MonotonicNs> paused_until_;
  std::vector<Outgoing> outbox_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_COORDINATOR_H_
