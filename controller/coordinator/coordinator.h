// The controller's reaction to agents, operators and time. It has no network and no threads:
// messages come in by calls and go out through the outbox, so that a simulator can run it
// unchanged.
//
// OWNER: main. THREAD: one at a time; SharedCoordinator has a mutex around it.
#ifndef MCCS_CONTROLLER_COORDINATOR_COORDINATOR_H_
#define MCCS_CONTROLLER_COORDINATOR_COORDINATOR_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "controller/coordinator/agent_message.h"
#include "controller/coordinator/cluster_state.h"
#include "controller/coordinator/named_rendezvous.h"
#include "controller/coordinator/pending_dumps.h"
#include "controller/coordinator/pending_traces.h"
#include "controller/measurement/cost_calibrator.h"
#include "controller/measurement/probe_scheduler.h"
#include "controller/objects/object.h"
#include "controller/planning/planner.h"
#include "controller/rates/window_scheduler.h"
#include "controller/state/controller_events.h"
#include "controller/state/resolved_view.h"
#include "proto/agent.pb.h"

namespace mccs {

struct CoordinatorOptions {
  int64_t heartbeat_timeout_ns = 5 * kNsPerSec;
  std::string version;  // shown to operators
  // Higher than all revisions that earlier controllers sent in RateLimits (proto/agent.proto).
  uint64_t last_rate_revision = 0;
  // Agents' times are compared with it; null: no check. LIFETIME: it outlives the coordinator.
  const WallClock* wall_clock = nullptr;
  // Number of the first request to a daemon of each kind (Dump, Trace, Probe); not 0. Random, so
  // that late answers to an earlier controller's requests belong to none of this one's.
  uint64_t first_request_id = 1;
  // Whether costs follow the daemons' measurements.
  bool calibrate_costs = true;
  // For all daemons (agent.v1.Tenants.id_key); empty: connections to them have no TLS.
  std::string id_key = {};
};

// For one agent: a message, or the end of its stream.
struct Outgoing {
  AgentKey to;
  std::optional<agent::v1::ToAgent> message;
  absl::Status end;  // used if there is no message
};

// Level-triggered: events change the state and mark what depends on it as stale. One function
// computes the stale values, and one compares them with what agents were sent.
//
// clang-format off
//   agents: Handle, OnStreamClosed     operators: SetObjects     time: Tick (timeouts, expiry)
//                  │                              │                   │
//                  └────────────► ClusterState, Stale ◄───────────────┘
//                                         │
//   Reconcile, at the end of each call:   ▼
//       strategies ──► rate limits ──► send windows        probe targets, Tenants, ReportInterval
//                                         │
//   SendDifferences:                      ▼
//       what agents should have and were not sent ──► outbox ◄── direct replies: Registered, Heartbeat,
//                                                                Dump, Trace, the end of a stream
// clang-format on
//
// Cost: a new communicator computes only its own strategy, and a report only the windows of those
// that wait for it. All else is computed by the next Tick, once for all events since the last one,
// or by SetObjects.
class Coordinator {
 public:
  // Heartbeats per timeout; more than one, so that a late one does no harm.
  static constexpr int kHeartbeatsPerTimeout = 3;
  static constexpr int64_t kOrphanTimeoutNs = 600 * kNsPerSec;
  // A proposal without any reply expires after this time. A communicator that rejected one gets no
  // other for the same time.
  static constexpr int64_t kProposalTimeoutNs = 30 * kNsPerSec;
  // After a restart, old rate limits are lifted only after this time. By then daemons have
  // reconnected, clocks are known, and periods for send windows are found.
  static constexpr int64_t kLiftOldLimitsAfterNs = 10 * kNsPerSec;

  // A stream whose agent has not registered after this time ends. An agent closes it earlier.
  static constexpr int64_t kRegistrationTimeoutNs = 30 * kNsPerSec;
  // A rejected host that has never registered is forgotten after this time without an attempt.
  static constexpr int64_t kRejectedTimeoutNs = 600 * kNsPerSec;
  // Daemons with one host name whose rejection is logged and audited; further ones are only shown.
  static constexpr size_t kMaxAuditedEndpoints = 4;

  // LIFETIME: clock and log outlive it.
  Coordinator(CoordinatorOptions options, const Clock* clock, Log* log);

  // `agent` has opened a stream from `peer`, and has sent nothing yet. `allowed`: whether this
  // client may be an agent; an error ends the stream.
  void OnStreamOpened(AgentKey agent, const std::string& peer, const absl::Status& allowed);
  // Handles a message of `agent`; the first must be Register. A protocol error ends the stream.
  void Handle(AgentKey agent, AgentMessage message);
  // The stream of `agent` has ended.
  void OnStreamClosed(AgentKey agent, const std::string& why);
  // Call several times per heartbeat timeout: hosts without a message for too long become lost.
  void Tick();

  std::vector<Outgoing> TakeOutbox();

  // Asks the daemon of `host` for its state; TakeAnswers returns the answer within seconds. Errors
  // as in PendingDumps::Add.
  absl::Status RequestState(const std::string& host, StateCallback callback);
  // Asks the daemons of `id` to trace the next operations; TakeTraceAnswers returns the answer
  // within seconds. Returns the number of the request. Errors as in PendingTraces::Add.
  // REQUIRES: the registry has `id`.
  absl::StatusOr<uint64_t> RequestTrace(CommId id, uint32_t operations, TraceCallback callback);
  // The operator has left: ends the trace, if it still runs.
  void CancelTrace(uint64_t request_id);
  // Answers all open and all later requests with an error: the controller stops.
  void StopRequests() {
    dumps_.Stop();
    traces_.Stop();
  }
  std::vector<StateAnswer> TakeAnswers() { return dumps_.TakeAnswers(); }
  std::vector<TraceAnswer> TakeTraceAnswers() { return traces_.TakeAnswers(); }

  // Sets the operators' objects and sends proposals to all communicators that they change.
  void SetObjects(std::shared_ptr<const ObjectSet> objects);
  const ObjectSet& objects() const { return *state_.objects; }
  // See ClusterState::certificate_end_s.
  void SetCertificateEnd(int64_t end_s) { state_.certificate_end_s = end_s; }
  // The decisions for the objects of `revision`, without strategies. Nothing: the current objects
  // are older or newer.
  std::optional<Decisions> DecisionsFor(uint64_t revision) const;

  // For the audit log: decisions since the last call.
  std::vector<ControllerEvent> TakeEvents() { return events_.Take(); }

  // For operators' queries.
  std::shared_ptr<const ProbedPaths> probed() const { return probes_.known(); }
  const ClusterState& state() const { return state_; }
  const Registry& registry() const { return state_.registry; }
  const WindowScheduler& windows() const { return windows_; }
  // For the store.
  RecoveredStrategies& strategies() { return state_.strategies; }
  // Input of policies: the registry, recovered communicators and probed paths.
  ClusterView View() const;
  const std::string& version() const { return options_.version; }
  MonotonicNs Now() const { return clock_->Now(); }
  // The time of day; 0: unknown.
  int64_t UnixSeconds() const {
    return options_.wall_clock == nullptr ? 0 : options_.wall_clock->Now() / kNsPerSec;
  }

 private:
  // Values that Reconcile must compute again.
  struct Stale {
    std::set<CommId> first_strategies;  // of new communicators
    bool plan = false;                  // strategies of all, rate limits and probe targets
    bool objects = false;               // operators' objects: Tenants
    bool time = false;                  // due probes, the interval of reports
  };

  void HandleRegister(AgentKey agent, const AgentMessage& message);
  void HandleMessage(AgentKey agent, const std::string& host, AgentMessage& message);
  void HandleHeartbeat(const std::string& host, const agent::v1::Heartbeat& beat, MonotonicNs now);
  // Log lines that messages of `host` cause, limited by host.
  void Warn(const std::string& host, const std::string& line);
  void Inform(const std::string& host, const std::string& line);
  // A limited warning about a message of `host` that is not used, or not in full.
  void LogRefusal(const std::string& host, const std::string& line);
  void LogGpuProblems(const std::string& host, const agent::v1::GpuSurvey& survey);
  void HandleAnnounce(const std::string& host, const agent::v1::Announce& announce);
  void HandleReports(const std::string& host, agent::v1::Reports& reports);
  void OnReport(const std::string& host, const Registry::ReportOutcome& outcome);
  void HandleEnded(const std::string& host, const agent::v1::Ended& ended);
  // Makes the plan stale at the next Tick, because of `why`.
  void RequestPlan(std::string why);
  // The proposal to `id` failed: sends no other one for a while. `action` and `outcome`: for the
  // audit log.
  void PauseProposals(CommId id, const char* action, const std::string& outcome);
  // Computes the pairs of hosts that do not reach each other, and sends them to their daemons.
  void UpdateUnreachablePairs();
  void ExpireSilentHosts();
  void ExpireDisconnected();
  void ExpireProposals();
  void ExpireUnregistered();
  void ExpireRejected();
  // Ends a stream whose agent has not proven which host it is: stores nothing about it.
  void Refuse(AgentKey agent, const absl::Status& why);
  void Reject(AgentKey agent, const agent::v1::Host& host, const absl::Status& why);
  // Whether it is the first rejection of this daemon since the host was last connected, and within
  // kMaxAuditedEndpoints.
  bool IsFirstRejection(const agent::v1::Host& host);
  // Rejects daemons whose Topology is gone, or does not have their host any more.
  void RejectMisplacedHosts();

  // Computes what is stale and sends the differences. Returns the decisions of the plan, without
  // strategies; empty if the plan was not stale.
  Decisions Reconcile();
  void ChooseFirstStrategy(CommId id);
  // Of all communicators. Returns the decisions.
  Decisions ChooseStrategies();
  // `strategy` is what `id` should run. REQUIRES: the leader's host is ready.
  void Propose(CommId id, strategy::Strategy strategy);
  // How fast communicators may send with the strategies of `view`.
  void PlanRateLimits(const ClusterView& view);
  // Logs guarantees that links can no longer hold, and those that they hold again.
  void RecordUnmetGuarantees(std::set<std::string> unmet);
  // Compares what agents should have with what they were sent. Nothing else sends, except direct
  // replies.
  void SendDifferences(const Stale& stale);
  // If the number of hosts needs another one.
  void SendReportInterval();

  // As ResolveView(View(), objects()), cached until something changes.
  const ClusterView& ResolvedView() { return view_cache_.Get(state_.objects, probes_.known()); }
  static std::string NameOf(CommId id) { return absl::StrCat("communicator ", FormatCommId(id)); }
  // Appends a message to `agent`; the caller fills it in before the next call.
  agent::v1::ToAgent& AddMessage(AgentKey agent);
  void End(AgentKey agent, absl::Status why);

  const CoordinatorOptions options_;
  const Clock* const clock_;
  Log* const log_;
  const MonotonicNs started_;
  ClusterState state_;
  // Open streams whose agent has neither registered nor been refused.
  struct Unregistered {
    std::string peer;  // for the log
    MonotonicNs since = 0;
  };
  std::map<AgentKey, Unregistered> unregistered_;
  LimitedWarnings refusals_;
  static constexpr int kHostLinesPerMinute = 600;
  LimitedWarnings host_lines_{*log_, "host", kHostLinesPerMinute};
  LimitedWarnings refused_messages_;

  // Computed from state_: the values that agents should have.
  ViewCache view_cache_{&state_.registry, &state_.strategies, &state_.unreachable};
  Planner planner_;
  WindowScheduler windows_;
  CostCalibrator costs_;
  ProbeScheduler probes_;
  NamedRendezvousTable named_rendezvous_;
  std::vector<CommId> unsent_proposals_;    // proposed, and not in the outbox yet
  std::set<std::string> unmet_guarantees_;  // as last logged
  Decisions decided_;                       // when the objects were set
  Stale stale_;
  std::vector<std::string> causes_;  // of the next plan; the first ones only

  PendingDumps dumps_{options_.first_request_id};
  PendingTraces traces_{options_.first_request_id};
  ControllerEvents events_;
  std::vector<Outgoing> outbox_;
};

// With a mutex, for gRPC's threads. Nothing blocks and no gRPC call happens under the mutex:
// messages are sent from the outbox after it is unlocked.
class SharedCoordinator {
 public:
  SharedCoordinator(CoordinatorOptions options, const Clock* clock, Log* log)
      : coordinator_(std::move(options), clock, log) {}

  // Runs `work(Coordinator&)` under the mutex and returns its result.
  template <typename Work>
  auto With(Work work) {
    const std::lock_guard lock(mutex_);
    return work(coordinator_);
  }

 private:
  std::mutex mutex_;
  Coordinator coordinator_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_COORDINATOR_H_
