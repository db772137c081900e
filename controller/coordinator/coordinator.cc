#include "controller/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "controller/coordinator/registration.h"
#include "controller/measurement/probe_targets.h"
#include "controller/state/audit_actions.h"
#include "controller/state/drains.h"

namespace mccs {
namespace {

// Number of causes in one audit entry.
constexpr size_t kMaxCauses = 5;

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, const Clock* clock, Log* log)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      started_(clock->Now()),
      refusals_(*log, "address"),
      refused_messages_(*log, "host"),
      windows_(log),
      costs_(options_.calibrate_costs, log),
      probes_(log, options_.first_request_id) {
  state_.limits = SentLimits(options_.last_rate_revision);
  state_.tenants.set_id_key(options_.id_key);
}

ClusterView Coordinator::View() const {
  ClusterView view = state_.strategies.AddRecovered(state_.registry.View());
  view.probed = probes_.known();
  view.unreachable = state_.unreachable.names();
  return view;
}

// ---- Events: they change the state, and mark what is stale ----

void Coordinator::OnStreamOpened(AgentKey agent, const std::string& peer,
                                 const absl::Status& allowed) {
  unregistered_[agent] = {.peer = peer, .since = clock_->Now()};
  if (!allowed.ok()) Refuse(agent, allowed);
}

void Coordinator::Handle(AgentKey agent, AgentMessage message) {
  const auto known = state_.host_of.find(agent);
  if (message.body.has_registration()) {
    HandleRegister(agent, message);
  } else if (known == state_.host_of.end()) {
    End(agent, absl::FailedPreconditionError("an agent's first message must be Register"));
  } else {
    state_.registry.RecordMessage(known->second, clock_->Now());
    HandleMessage(agent, known->second, message);
  }
  Reconcile();
}

void Coordinator::HandleMessage(AgentKey agent, const std::string& host, AgentMessage& message) {
  if (!message.valid.ok())
    return LogRefusal(host, absl::StrCat("host ", host, ": ", message.valid.message()));
  const MonotonicNs now = clock_->Now();
  agent::v1::FromAgent& body = message.body;
  switch (body.kind_case()) {
    case agent::v1::FromAgent::kHeartbeat:
      HandleHeartbeat(host, body.heartbeat(), now);
      AddMessage(agent).mutable_heartbeat()->set_sent_ns(now);
      break;
    case agent::v1::FromAgent::kAnnounce:
      HandleAnnounce(host, body.announce());
      break;
    case agent::v1::FromAgent::kReports:
      HandleReports(host, *body.mutable_reports());
      break;
    case agent::v1::FromAgent::kEnded:
      HandleEnded(host, body.ended());
      break;
    case agent::v1::FromAgent::kDumped:
      dumps_.Handle(host, body.dumped().request_id(), body.dumped().state());
      break;
    case agent::v1::FromAgent::kTraced:
      traces_.Handle(host, body.traced().request_id(),
                     std::move(*body.mutable_traced()->mutable_trace()),
                     state_.clocks.Read(host, now));
      break;
    case agent::v1::FromAgent::kNamedRendezvous:
      if (const absl::Status all = named_rendezvous_.Set(host, body.named_rendezvous()); !all.ok())
        Warn(host, std::string(all.message()));
      break;
    case agent::v1::FromAgent::kUnreachableHosts:
      state_.unreachable.Set(host, body.unreachable_hosts(), now);
      break;
    case agent::v1::FromAgent::kGpuSurvey:
      LogGpuProblems(host, body.gpu_survey());
      state_.registry.SetGpuSurvey(host, std::move(*body.mutable_gpu_survey()));
      break;
    case agent::v1::FromAgent::kProbed:
      if (probes_.Handle(host, body.probed(), now))
        RequestPlan(absl::StrCat("host ", host, " probed paths"));
      break;
    default:
      break;  // A kind of a later protocol version.
  }
}

void Coordinator::HandleRegister(AgentKey agent, const AgentMessage& message) {
  if (!message.refused.ok()) return Refuse(agent, message.refused);
  const agent::v1::Register& registration = message.body.registration();
  const agent::v1::Host& host = registration.host();
  const WallClock* wall_clock = options_.wall_clock;
  if (const absl::Status status =
          CheckRegistration(registration, *state_.objects,
                            wall_clock != nullptr ? std::optional(wall_clock->Now()) : std::nullopt,
                            options_.version);
      !status.ok()) {
    return Reject(agent, host, status);
  }
  if (!message.valid.ok()) return Reject(agent, host, message.valid);
  if (state_.host_of.contains(agent)) {
    return End(agent, absl::FailedPreconditionError("an agent registers once per stream"));
  }
  const auto before = state_.registry.hosts().find(host.name());
  const bool replaces =
      before != state_.registry.hosts().end() && before->second.state == HostState::kReady;
  const AgentKey old = replaces ? before->second.agent : AgentKey();
  const absl::StatusOr<Unlisted> unlisted =
      state_.registry.Register(agent, registration, clock_->Now());
  if (!unlisted.ok()) return Reject(agent, host, unlisted.status());
  probes_.OnHostLost(host.name());
  named_rendezvous_.Remove(host.name());
  if (replaces) {
    state_.host_of.erase(old);
    End(old, absl::AbortedError("the daemon opened another stream"));
  }
  state_.host_of[agent] = host.name();
  unregistered_.erase(agent);
  state_.unreachable.AddHost(host);
  state_.rejected.erase(host.name());
  state_.clocks.Remove(host.name());
  for (const auto& [id, record] : state_.registry.communicators()) {
    if (record.leader == host.name()) state_.strategies.MarkChanged(id);
  }
  RequestPlan(absl::StrCat("host ", host.name(), " registered"));
  log_->Info("host ", host.name(), " registered: ", host.gpus_size(), " GPUs, peer endpoint ",
             host.peer_endpoint(), ", leads ", registration.communicators_size(), " communicators");
  if (unlisted->count > 0) {
    LogRefusal(host.name(),
               absl::StrCat("host ", host.name(), " registered without ", unlisted->count,
                            " of its ", registration.communicators_size(),
                            " communicators: ", unlisted->first.message()));
  }
  LogGpuProblems(host.name(), host.gpu_survey());
  agent::v1::Registered* registered = AddMessage(agent).mutable_registered();
  registered->set_heartbeat_every_ns(options_.heartbeat_timeout_ns / kHeartbeatsPerTimeout);
  registered->set_heartbeat_timeout_ns(options_.heartbeat_timeout_ns);
  registered->set_version(options_.version);
  *registered->mutable_tenants() = state_.tenants;
  registered->set_report_every_ns(state_.report_every_ns);
  state_.limits.OnRegistered(host.name(), state_.registry.communicators());
}

// A stuck host stays ready: its daemon's other threads work, and its engine may return.
void Coordinator::HandleHeartbeat(const std::string& host, const agent::v1::Heartbeat& beat,
                                  MonotonicNs now) {
  if (beat.echoed_sent_ns() != 0) {
    state_.clocks.AddTrip(host, {.sent = beat.echoed_sent_ns(),
                                 .received_at = beat.received_ns(),
                                 .answered = beat.sent_ns(),
                                 .returned_at = now});
  }
  state_.registry.SetCertificateEnd(host, beat.certificate_end_s());
  if (!beat.has_engine_turns()) return;
  // As long as silence makes a host lost. That is several heartbeats, and each wakes the engine.
  if (!state_.registry.RecordEngineTurns(host, beat.engine_turns(), now,
                                         options_.heartbeat_timeout_ns)) {
    return;
  }
  if (state_.registry.hosts().at(host).stuck) {
    log_->Warning("host ", host,
                  " is stuck: its daemon sends heartbeats, but its engine has taken no ",
                  "turn for ", FormatAge(options_.heartbeat_timeout_ns),
                  "; its jobs do not progress until the daemon restarts");
  } else {
    log_->Info("host ", host, " is no longer stuck: its engine takes turns again");
  }
}

void Coordinator::Warn(const std::string& host, const std::string& line) {
  host_lines_.Write(host, line, clock_->Now());
}

void Coordinator::Inform(const std::string& host, const std::string& line) {
  host_lines_.Write(host, line, clock_->Now(), LogLevel::kInfo);
}

void Coordinator::LogRefusal(const std::string& host, const std::string& line) {
  refused_messages_.Write(host, line, clock_->Now());
}

void Coordinator::LogGpuProblems(const std::string& host, const agent::v1::GpuSurvey& survey) {
  for (const std::string& problem : survey.problems())
    Warn(host, absl::StrCat("host ", host, ": ", problem));
}

void Coordinator::HandleAnnounce(const std::string& host, const agent::v1::Announce& announce) {
  const CommId id(announce.comm_id());
  if (const absl::Status status = state_.registry.Announce(host, announce, clock_->Now());
      !status.ok()) {
    return LogRefusal(host, absl::StrCat("host ", host, ": ", status.message()));
  }
  state_.strategies.MarkChanged(id);
  state_.limits.OnAnnounced(id);
  // Others may have to release resources.
  RequestPlan(absl::StrCat(NameOf(id), announce.running() ? " changed" : " was announced"));
  if (announce.running()) {
    Inform(host, absl::StrCat(NameOf(id), " runs epoch ", announce.strategy().epoch(), ", ",
                              announce.strategy().origin()));
    return;
  }
  Inform(host, absl::StrCat("host ", host, " announced ", NameOf(id), ": ", announce.members_size(),
                            " ranks on ", announce.hosts_size(), " hosts"));
  for (const std::string& name : announce.hosts()) {
    if (FindHostDrain(*state_.objects, name) == nullptr) continue;
    Warn(host, absl::StrCat(NameOf(id), " of ", announce.tenant(), " starts on host ", name,
                            ", which is drained"));
  }
  state_.registry.DropProposals(id);  // It waits for its first one.
  stale_.first_strategies.insert(id);
}

void Coordinator::HandleReports(const std::string& host, agent::v1::Reports& reports) {
  for (agent::v1::Report& report : *reports.mutable_complete())
    OnReport(host, state_.registry.Report(host, std::move(report)));
  for (const agent::v1::Progress& progress : reports.progress())
    OnReport(host, state_.registry.ReportProgress(host, progress));
}

void Coordinator::OnReport(const std::string& host, const Registry::ReportOutcome& outcome) {
  if (!outcome.refused.ok()) LogRefusal(host, std::string(outcome.refused.message()));
  if (outcome.report == nullptr) return;
  const CommId id(outcome.report->comm_id());
  if (outcome.lanes_broken) probes_.LinksChanged(host);
  if (outcome.rejected) {
    PauseProposals(id, kAuditRejectProposal,
                   absl::StrCat("rejected: ", outcome.report->change_error()));
    state_.strategies.MarkChanged(id);
  }
  windows_.Report(host, *outcome.report);
}

void Coordinator::HandleEnded(const std::string& host, const agent::v1::Ended& ended) {
  const CommId id(ended.comm_id());
  if (!state_.registry.OnCommunicatorEnded(host, id)) return;
  Inform(host, absl::StrCat(NameOf(id), " ended on its leader, host ", host, ": ", ended.reason()));
  RequestPlan(NameOf(id) + " ended");
  windows_.Remove(id);
}

void Coordinator::OnStreamClosed(AgentKey agent, const std::string& why) {
  unregistered_.erase(agent);
  const auto known = state_.host_of.find(agent);
  if (known == state_.host_of.end()) return;
  log_->Warning("host ", known->second, " lost: ", why);
  state_.registry.MarkLost(known->second, why, clock_->Now());
  RequestPlan(absl::StrCat("host ", known->second, " lost"));
  dumps_.OnHostLost(known->second, why);
  traces_.OnHostLost(known->second, why);
  probes_.OnHostLost(known->second);
  named_rendezvous_.Remove(known->second);
  state_.unreachable.RemoveHost(known->second);
  state_.host_of.erase(known);
}

void Coordinator::SetObjects(std::shared_ptr<const ObjectSet> objects) {
  if (!SameLinks(*state_.objects, *objects)) probes_.LinksChanged();
  state_.objects = std::move(objects);
  state_.paused_until.clear();
  RejectMisplacedHosts();
  if (!causes_.empty()) RequestPlan("an operator's change");
  stale_.objects = stale_.plan = true;
  decided_ = Reconcile();
}

std::optional<Decisions> Coordinator::DecisionsFor(uint64_t revision) const {
  if (objects().revision != revision) return std::nullopt;
  return decided_;
}

void Coordinator::Tick() {
  const MonotonicNs now = clock_->Now();
  dumps_.Expire(now);
  traces_.Expire(now);
  ExpireSilentHosts();
  ExpireUnregistered();
  ExpireRejected();
  ExpireDisconnected();
  ExpireProposals();
  UpdateUnreachablePairs();
  for (const CostCalibrator::CostUpdate& update :
       costs_.FindUpdates(state_.registry.communicators(), now)) {
    state_.registry.SetCosts(update.id, update.costs);
    RequestPlan(absl::StrCat("costs of ", NameOf(update.id), " measured"));
  }
  if (now - started_ >= kLiftOldLimitsAfterNs) state_.limits.LiftOldLimits();
  windows_.OnTimePassed();
  stale_.time = true;
  stale_.plan = !causes_.empty();
  Reconcile();
}

void Coordinator::UpdateUnreachablePairs() {
  const MonotonicNs now = clock_->Now();
  const UnreachablePairs::Changes changes = state_.unreachable.Update(now);
  const auto record = [&](const char* action, const HostPair& pair, std::string outcome) {
    const std::string names = absl::StrCat("hosts ", pair.first, ", ", pair.second);
    RequestPlan(absl::StrCat(names, action == kAuditQuarantinePair
                                        ? " do not reach each other"
                                        : " reach each other again or are lost"));
    events_.Record({action, names, std::move(outcome)}, now);
  };
  for (const HostPair& pair : changes.appeared) {
    const std::string what = Describe(pair, state_.unreachable.pairs().at(pair));
    log_->Warning(what, "; communicators avoid this pair until a connection succeeds");
    record(kAuditQuarantinePair, pair, absl::StrCat("done: ", what));
  }
  for (const HostPair& pair : changes.cleared) {
    log_->Info("hosts ", pair.first, " and ", pair.second,
               " are no longer reported as unreachable for each other");
    record(kAuditReleasePair, pair, "done: no daemon reports the pair any more");
  }
  for (const auto& [endpoint, hosts] : changes.contested) {
    const std::string names = absl::StrCat("hosts ", absl::StrJoin(hosts, ", "));
    const std::string what = absl::StrCat(
        names, " have all registered the address ", endpoint,
        "; connections to it are no longer checked; give each daemon an address of its own "
        "(`advertise` in mccsd's configuration)");
    log_->Warning(what);
    events_.Record({kAuditIgnoreEndpoint, names, absl::StrCat("done: ", what)}, now);
  }
  for (const std::string& host : changes.outdated)
    *AddMessage(state_.registry.hosts().at(host).agent).mutable_peer_hosts() =
        state_.unreachable.PeersOf(host, now);
}

void Coordinator::RequestPlan(std::string why) {
  const bool known = std::find(causes_.begin(), causes_.end(), why) != causes_.end();
  if (!known && causes_.size() < kMaxCauses) causes_.push_back(std::move(why));
}

void Coordinator::PauseProposals(CommId id, const char* action, const std::string& outcome) {
  log_->Warning("proposal to ", NameOf(id), " ", outcome);
  events_.Record({action, NameOf(id), outcome}, clock_->Now());
  state_.paused_until[id] = clock_->Now() + kProposalTimeoutNs;
  RequestPlan(NameOf(id) + " continues with its strategy");  // With rate limits for its lanes.
}

void Coordinator::ExpireSilentHosts() {
  std::vector<AgentKey> silent;
  for (const auto& [agent, host] : state_.host_of) {
    if (clock_->Now() - state_.registry.hosts().at(host).received_at >
        options_.heartbeat_timeout_ns)
      silent.push_back(agent);
  }
  for (AgentKey agent : silent) {
    const std::string why =
        absl::StrCat("no message for more than ", options_.heartbeat_timeout_ns / kNsPerMs, " ms");
    OnStreamClosed(agent, why);
    End(agent, absl::DeadlineExceededError(why));
  }
}

void Coordinator::ExpireUnregistered() {
  std::vector<AgentKey> silent;
  for (const auto& [agent, stream] : unregistered_) {
    if (clock_->Now() - stream.since > kRegistrationTimeoutNs) silent.push_back(agent);
  }
  for (const AgentKey agent : silent) {
    Refuse(agent, absl::DeadlineExceededError(
                      absl::StrCat("no registration within ", kRegistrationTimeoutNs / kNsPerSec,
                                   " s; the daemon retries automatically")));
  }
}

void Coordinator::ExpireRejected() {
  for (const std::string& host : state_.registry.RemoveRejected(clock_->Now() - kRejectedTimeoutNs))
    state_.rejected.erase(host);
}

// Others may use the released resources.
void Coordinator::ExpireDisconnected() {
  const MonotonicNs now = clock_->Now();
  for (const CommId id : state_.registry.RemoveOrphans(now - kOrphanTimeoutNs))
    RequestPlan(NameOf(id) + " expired: its leader did not reconnect");
  if (now - started_ > kOrphanTimeoutNs && state_.strategies.DropUnannounced())
    RequestPlan("recovered communicators expired: their daemons did not reconnect");
}

void Coordinator::ExpireProposals() {
  const MonotonicNs now = clock_->Now();
  for (const auto& [id, record] : state_.registry.communicators()) {
    if (record.proposed.empty() || now - record.proposed_at <= kProposalTimeoutNs) continue;
    state_.registry.DropProposals(id);
    state_.strategies.MarkChanged(id);
    PauseProposals(id, kAuditTimeOutProposal, "timed out: no reply from the leader");
  }
  const size_t before = state_.paused_until.size();
  std::erase_if(state_.paused_until, [&](const auto& entry) { return entry.second <= now; });
  if (state_.paused_until.size() < before) RequestPlan("failed proposals are retried");
}

void Coordinator::Refuse(AgentKey agent, const absl::Status& why) {
  const auto known = unregistered_.find(agent);
  const std::string peer = known != unregistered_.end() ? known->second.peer : "a connected daemon";
  unregistered_.erase(agent);
  // A client may use any of its ports.
  refusals_.Write(peer.substr(0, peer.rfind(':')),
                  absl::StrCat("agent stream from ", peer, " refused: ", why.message()),
                  clock_->Now());
  End(agent, why);
}

void Coordinator::Reject(AgentKey agent, const agent::v1::Host& host, const absl::Status& why) {
  const std::string text(why.message());
  if (IsFirstRejection(host)) {  // The daemon retries; only the first rejection is logged.
    log_->Warning("host '", host.name(), "' rejected: ", text);
    events_.Record({kAuditRejectDaemon, absl::StrCat("host '", host.name(), "'"),
                    absl::StrCat("rejected: ", text)},
                   clock_->Now());
  }
  state_.registry.RecordRejected(host, text, clock_->Now());
  unregistered_.erase(agent);
  End(agent, why);
}

bool Coordinator::IsFirstRejection(const agent::v1::Host& host) {
  const auto known = state_.rejected.find(host.name());
  if (known != state_.rejected.end() && known->second.size() >= kMaxAuditedEndpoints) return false;
  if (known == state_.rejected.end() && state_.rejected.size() >= Registry::kMaxHosts)
    state_.rejected.clear();
  return state_.rejected[host.name()].insert(host.peer_endpoint()).second;
}

void Coordinator::RejectMisplacedHosts() {
  std::vector<std::pair<AgentKey, absl::Status>> misplaced;
  for (const auto& [agent, name] : state_.host_of) {
    absl::Status status =
        CheckTopologyName(name, state_.registry.hosts().at(name).topology, *state_.objects);
    if (!status.ok()) misplaced.emplace_back(agent, std::move(status));
  }
  for (const auto& [agent, why] : misplaced) {
    const agent::v1::Host host = state_.registry.hosts().at(state_.host_of.at(agent)).host;
    OnStreamClosed(agent, std::string(why.message()));
    Reject(agent, host, why);
  }
}

// ---- Messages ----

agent::v1::ToAgent& Coordinator::AddMessage(AgentKey agent) {
  return outbox_.emplace_back(Outgoing{agent, agent::v1::ToAgent(), absl::OkStatus()})
      .message.value();
}

void Coordinator::End(AgentKey agent, absl::Status why) {
  outbox_.push_back({agent, std::nullopt, std::move(why)});
}

absl::Status Coordinator::RequestState(const std::string& host, StateCallback callback) {
  MCCS_ASSIGN_OR_RETURN(const uint64_t request_id,
                        dumps_.Add(state_.registry, host, clock_->Now(), std::move(callback)));
  const AgentKey agent = state_.registry.hosts().at(host).agent;
  AddMessage(agent).mutable_dump()->set_request_id(request_id);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Coordinator::RequestTrace(CommId id, uint32_t operations,
                                                   TraceCallback callback) {
  MCCS_ASSIGN_OR_RETURN(
      const PendingTraces::Started started,
      traces_.Add(state_.registry, id, operations, clock_->Now(), std::move(callback)));
  for (const AgentKey agent : started.agents) {
    agent::v1::Trace* const order = AddMessage(agent).mutable_trace();
    order->set_request_id(started.request_id);
    order->set_comm_id(id.value());
    order->set_operations(operations);
  }
  return started.request_id;
}

void Coordinator::CancelTrace(uint64_t request_id) {
  for (const AgentKey agent : traces_.Cancel(request_id)) {
    agent::v1::Trace* const order = AddMessage(agent).mutable_trace();
    order->set_request_id(request_id);
    order->set_stop(true);
  }
}

std::vector<Outgoing> Coordinator::TakeOutbox() { return std::exchange(outbox_, {}); }

}  // namespace mccs
