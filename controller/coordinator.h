// What the controller does on each message of an agent. No network and no threads: it is told what
// arrived, and leaves what is to be sent in its outbox, so that a simulator can run it as it is.
//
// OWNER: main. THREAD: one at a time; agent_hub.h and operator_service.h hold a mutex around it.
#ifndef MCCS_CONTROLLER_COORDINATOR_H_
#define MCCS_CONTROLLER_COORDINATOR_H_

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
#include "controller/cost_keeper.h"
#include "controller/drains.h"
#include "controller/host_clocks.h"
#include "controller/kept_plan.h"
#include "controller/kept_view.h"
#include "controller/objects/object_set.h"
#include "controller/own_decisions.h"
#include "controller/pace_book.h"
#include "controller/planner.h"
#include "controller/probe_book.h"
#include "controller/questions.h"
#include "controller/registration.h"
#include "controller/registry.h"
#include "controller/rollouts.h"
#include "controller/strategy_memory.h"
#include "controller/window_keeper.h"
#include "proto/agent.pb.h"

namespace mccs {

struct CoordinatorOptions {
  int64_t heartbeat_timeout_ns = 5 * kNsPerSec;
  std::string version;  // for people
  // Above all that earlier controllers gave to paces (proto/agent.proto).
  uint64_t last_pace_revision = 0;
  // Agents' are compared with it; null: they are not. LIFETIME: it outlives the coordinator.
  const WallClock* wall_clock = nullptr;
  // Whether costs follow what daemons measure.
  bool calibrate_costs = true;
};

// Something for one agent: a message, or the end of its stream.
struct Outgoing {
  AgentKey to;
  std::optional<agent::ToAgent> message;
  absl::Status end;  // when there is no message
};

class Coordinator {
 public:
  // Heartbeats in one timeout, so that one that is late does no harm.
  static constexpr int kHeartbeatsPerTimeout = 3;
  static constexpr int64_t kForgetOrphansAfterNs = 600 * kNsPerSec;
  // A proposal of which nothing has been heard for so long is given up; and so long a communicator
  // whose leader gave one up is left alone.
  static constexpr int64_t kProposalPatienceNs = 30 * kNsPerSec;
  // Limits of an earlier controller that are none any more are lifted after so long: by then
  // daemons are back, their clocks are known, and periods are found that windows go by.
  static constexpr int64_t kLiftAfterNs = 10 * kNsPerSec;

  // LIFETIME: clock and log outlive it.
  Coordinator(CoordinatorOptions options, const Clock* clock, Log* log);

  // `agent` said something; its first word must be Register. What breaks the protocol ends the
  // stream.
  void Hear(AgentKey agent, const agent::FromAgent& message);
  // The stream of `agent` is gone.
  void Gone(AgentKey agent, const std::string& why);
  // Call several times per heartbeat timeout: hosts that have been silent for too long are lost.
  void Tick();

  std::vector<Outgoing> TakeOutbox();

  // Asks the daemon of `host` for its state; the answer comes with TakeAnswers, some seconds later
  // at most. Errors as Questions::Ask.
  absl::StatusOr<uint64_t> AskState(const std::string& host);
  std::vector<StateAnswer> TakeAnswers() { return questions_.TakeAnswers(); }

  // What operators want from now on: proposed to all communicators that shall run otherwise.
  void SetObjects(std::shared_ptr<const ObjectSet> objects);
  const ObjectSet& objects() const { return *objects_; }
  // What was decided then, without the strategies. Nothing: other objects have come since those of
  // `revision`, or they have not come yet.
  std::optional<Decisions> DecidedOn(uint64_t revision) const;

  // For the audit log: those since the last call.
  std::vector<OwnDecision> TakeDecisions() { return own_.Take(); }

  // For what is shown to operators.
  std::shared_ptr<const ProbedPaths> probed() const { return probes_.known(); }

  const Registry& registry() const { return registry_; }
  const Rollouts& rollouts() const { return rollouts_; }
  const HostClocks& clocks() const { return clocks_; }
  const WindowKeeper& windows() const { return windows_; }
  // For the store.
  StrategyMemory& strategies() { return strategies_; }
  // Communicators of an earlier controller of which no daemon has said anything yet.
  const Remembered& remembered() const { return strategies_.remembered(); }
  // What policies decide from: the registry, communicators that are remembered, and ways that were
  // probed.
  ClusterView View() const;
  const std::string& version() const { return options_.version; }
  MonotonicNs Now() const { return clock_->Now(); }

 private:
  void HearRegister(AgentKey agent, const agent::Register& registration);
  void HearAnnounce(const std::string& host, const agent::Announce& announce);
  void HearHeartbeat(AgentKey agent, const std::string& host, const agent::Heartbeat& beat);
  void HearReport(const std::string& host, const agent::Report& report);
  // Proposes what each communicator should run and does not. Returns what was decided, without the
  // strategies.
  Decisions Replan();
  // Has the next Tick do it, because of `why`.
  void ReplanSince(std::string why);
  // As CompleteView(View(), objects()), until something changes.
  const ClusterView& Complete() { return kept_view_.Of(objects_, probes_.known()); }
  void Propose(CommId id, strategy::Strategy strategy);
  // Decides how fast communicators may send with the strategies of `view`, and tells it.
  void SendPaces(const ClusterView& view);
  // What links do not hold of all guarantees, now.
  void NoteBroken(std::set<std::string> broken);
  // Tells hosts how fast and when communicators may send, where that is new.
  void TellPaces();
  // For the clock of `host`; without windows where that is not known.
  agent::Pace OnClockOf(const std::string& host, agent::Pace pace) const;
  // Asks daemons what policies would like to know of the ways of flows.
  void SendProbes();
  // Of `id` nothing came of what was proposed: not again for a while.
  void LeaveAlone(CommId id, const std::string& why);
  void GiveUpStaleProposals();
  void ForgetWhoStaysAway();
  void Refuse(AgentKey agent, const agent::Host& host, const absl::Status& why);
  // Since it was here last.
  bool IsFirstRefusalOf(const agent::Host& host);
  // Those that say that they stand in a Topology that is not there any more, or not theirs.
  void RefuseTheMisplaced();
  // All agents hear of the Tenants, if they are others than before.
  void TellTenants();
  // A message to `agent`, to be filled in before the next one.
  agent::ToAgent& Tell(AgentKey agent);
  void End(AgentKey agent, absl::Status why);

  const CoordinatorOptions options_;
  const Clock* const clock_;
  Log* const log_;
  const MonotonicNs started_;
  Registry registry_;
  Rollouts rollouts_;
  Questions questions_;
  StrategyMemory strategies_;
  PaceBook paces_;
  bool lifts_ = false;                      // kLiftAfterNs are over
  std::vector<PlannedPace> planned_paces_;  // without windows
  std::set<std::string> broken_;            // guarantees, as people were told
  HostClocks clocks_;
  WindowKeeper windows_;
  CostKeeper costs_;
  ProbeBook probes_;
  std::shared_ptr<const ObjectSet> objects_ = std::make_shared<const ObjectSet>();
  KeptView kept_view_{&registry_, &strategies_};
  KeptPlan plan_;
  Decisions decided_;                        // when objects_ came
  agent::Tenants tenants_;                   // as agents were told last
  std::map<AgentKey, std::string> host_of_;  // registered agents
  // Since they were here last: by name and endpoint, as a name may be another daemon's, or none.
  std::set<std::pair<std::string, std::string>> refused_;
  std::vector<std::string> replan_;  // what has changed that policies decide by; the first of it
  OwnDecisions own_;
  std::map<CommId, MonotonicNs> left_alone_until_;
  std::vector<Outgoing> outbox_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_H_
