#include "controller/coordinator/coordinator.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "controller/coordinator/tenants.h"
#include "controller/measurement/probe_targets.h"
#include "controller/rates/rate_limits.h"
#include "controller/state/topology_mismatch.h"

namespace mccs {
namespace {

// Number of causes in one audit entry.
constexpr size_t kMaxCauses = 5;
constexpr size_t kMaxMovedShown = 5;

std::string NameOf(CommId id) { return absl::StrCat("communicator ", FormatCommId(id)); }

std::string FirstOf(const std::vector<std::string>& texts) {
  const size_t shown = std::min(texts.size(), kMaxMovedShown);
  std::string text =
      absl::StrJoin(texts.begin(), texts.begin() + static_cast<int64_t>(shown), "; ");
  if (shown < texts.size()) absl::StrAppend(&text, "; and ", texts.size() - shown, " more");
  return text;
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, const Clock* clock, Log* log)
    : options_(std::move(options)),
      clock_(clock),
      log_(log),
      started_(clock->Now()),
      sent_limits_(options_.last_pace_revision),
      windows_(log),
      costs_(options_.calibrate_costs, log),
      probes_(log) {}

ClusterView Coordinator::View() const {
  ClusterView view = strategies_.With(registry_.View());
  view.probed = probes_.known();
  return view;
}

void Coordinator::Handle(AgentKey agent, const agent::v1::FromAgent& message) {
  if (message.has_registration()) return HandleRegister(agent, message.registration());
  const auto known = host_of_.find(agent);
  if (known == host_of_.end()) {
    return End(agent, absl::FailedPreconditionError("an agent's first message must be Register"));
  }
  const std::string& host = known->second;
  registry_.RecordMessage(host, clock_->Now());
  switch (message.kind_case()) {
    case agent::v1::FromAgent::kHeartbeat:
      HandleHeartbeat(agent, host, message.heartbeat());
      break;
    case agent::v1::FromAgent::kAnnounce:
      HandleAnnounce(host, message.announce());
      break;
    case agent::v1::FromAgent::kReport:
      HandleReport(host, message.report());
      break;
    case agent::v1::FromAgent::kEnded:
      log_->Info("communicator ", FormatCommId(CommId(message.ended().comm_id())), " ended on ",
                 host, ": ", message.ended().reason());
      registry_.OnCommunicatorEnded(host, CommId(message.ended().comm_id()));
      RequestReplan(NameOf(CommId(message.ended().comm_id())) + " ended");
      // Communicators that wait for it get new windows at once.
      if (windows_.Remove(CommId(message.ended().comm_id())) &&
          windows_.Update(clock_->Now(), clocks_)) {
        SendRateLimits();
      }
      break;
    case agent::v1::FromAgent::kDumped:
      dumps_.Handle(host, message.dumped().request_id(), message.dumped().state());
      break;
    case agent::v1::FromAgent::kProbed:
      if (probes_.Handle(host, message.probed(), clock_->Now()))
        RequestReplan(absl::StrCat("host ", host, " probed paths"));
      break;
    default:
      break;  // A kind of a later protocol version.
  }
}

void Coordinator::HandleRegister(AgentKey agent, const agent::v1::Register& registration) {
  const agent::v1::Host& host = registration.host();
  const WallClock* wall_clock = options_.wall_clock;
  if (const absl::Status status =
          CheckRegistration(registration, *objects_,
                            wall_clock != nullptr ? std::optional(wall_clock->Now()) : std::nullopt,
                            options_.version);
      !status.ok()) {
    return Refuse(agent, host, status);
  }
  if (host_of_.contains(agent)) {
    return End(agent, absl::FailedPreconditionError("an agent registers once per stream"));
  }
  const auto before = registry_.hosts().find(host.name());
  const bool replaces =
      before != registry_.hosts().end() && before->second.state == HostState::kReady;
  const AgentKey old = replaces ? before->second.agent : AgentKey();
  if (const absl::Status status = registry_.Register(agent, registration, clock_->Now());
      !status.ok()) {
    return Refuse(agent, host, status);
  }
  probes_.OnHostLost(host.name());
  if (replaces) {
    host_of_.erase(old);
    End(old, absl::AbortedError("the daemon opened another stream"));
  }
  host_of_[agent] = host.name();
  refused_.erase(std::pair(host.name(), host.peer_endpoint()));
  clocks_.Remove(host.name());
  for (const agent::v1::Announce& led : registration.communicators()) {
    strategies_.MarkChanged(CommId(led.comm_id()));
  }
  RequestReplan(absl::StrCat("host ", host.name(), " registered"));
  log_->Info("host ", host.name(), " registered: ", host.gpus_size(), " GPUs, peer endpoint ",
             host.peer_endpoint(), ", leads ", registration.communicators_size(), " communicators");
  agent::v1::Registered* registered = AddMessage(agent).mutable_registered();
  registered->set_heartbeat_every_ns(options_.heartbeat_timeout_ns / kHeartbeatsPerTimeout);
  registered->set_heartbeat_timeout_ns(options_.heartbeat_timeout_ns);
  registered->set_version(options_.version);
  *registered->mutable_tenants() = tenants_;
  for (agent::v1::RateLimits& limits :
       sent_limits_.LimitsFor(host.name(), registry_.communicators())) {
    *AddMessage(agent).mutable_rate_limits() = ToHostClock(host.name(), std::move(limits));
  }
}

void Coordinator::HandleHeartbeat(AgentKey agent, const std::string& host,
                                  const agent::v1::Heartbeat& beat) {
  const MonotonicNs now = clock_->Now();
  if (beat.echoed_sent_ns() != 0) {
    clocks_.AddTrip(host, {.sent = beat.echoed_sent_ns(),
                           .received_at = beat.received_ns(),
                           .answered = beat.sent_ns(),
                           .returned_at = now});
  }
  AddMessage(agent).mutable_heartbeat()->set_sent_ns(now);
}

void Coordinator::HandleAnnounce(const std::string& host, const agent::v1::Announce& announce) {
  const CommId id(announce.comm_id());
  if (const absl::Status status = registry_.Announce(host, announce, clock_->Now()); !status.ok()) {
    log_->Warning("host ", host, ": ", std::string(status.message()));
    return;
  }
  if (announce.running()) {
    log_->Info("communicator ", FormatCommId(id), " runs epoch ", announce.strategy().epoch(), ", ",
               announce.strategy().origin());
  } else {
    log_->Info("communicator ", FormatCommId(id), " of ", announce.members_size(), " ranks on ",
               announce.hosts_size(), " hosts, announced by ", host);
    registry_.DropProposals(id);  // It waits for its first proposal.
  }
  strategies_.MarkChanged(id);
  // Others may have to release resources.
  RequestReplan(absl::StrCat(NameOf(id), announce.running() ? " changed" : " was announced"));
  if (announce.running()) return;
  for (const std::string& name : announce.hosts()) {
    if (FindHostDrain(*objects_, name) == nullptr) continue;
    log_->Warning("communicator ", FormatCommId(id), " of ", announce.tenant(), " starts on host ",
                  name, ", which is drained");
  }
  const ClusterView& view = ResolvedView();
  absl::StatusOr<strategy::Strategy> strategy = plan_.DecideOne(*objects_, view, id);
  if (!strategy.ok()) {
    // The leader continues with its own default.
    log_->Warning("cannot propose a strategy: ", std::string(strategy.status().message()));
    rollouts_.OnPolicyFailed();
    return;
  }
  // With an address that a host does not have, the communicator would never form, and it has no
  // earlier strategy. Hosts that register later get their addresses then.
  RemoveUnknownAddresses(view, {announce.hosts().begin(), announce.hosts().end()}, &*strategy);
  Propose(id, *std::move(strategy));
}

void Coordinator::HandleReport(const std::string& host, const agent::v1::Report& report) {
  const CommId id(report.comm_id());
  rollouts_.OnReported(id, host, report, clock_->Now());
  if (HaveLanesBroken(registry_, host, report)) probes_.LinksChanged(host);
  if (registry_.Report(host, report)) {
    PauseProposals(id, report.change_error());
    strategies_.MarkChanged(id);
  }
  const auto record = registry_.communicators().find(id);
  const bool is_a_member =
      record != registry_.communicators().end() && record->second.reports.contains(host);
  if (is_a_member && windows_.Handle(host, report) && windows_.Update(clock_->Now(), clocks_))
    SendRateLimits();
}

void Coordinator::SetObjects(std::shared_ptr<const ObjectSet> objects) {
  if (!SameLinks(*objects_, *objects)) probes_.LinksChanged();
  objects_ = std::move(objects);
  paused_until_.clear();
  RefuseMisplacedHosts();
  SendTenants();
  if (!replan_.empty()) RequestReplan("an operator's change");
  decided_ = Replan();
}

std::optional<Decisions> Coordinator::DecisionsFor(uint64_t revision) const {
  if (objects_->revision != revision) return std::nullopt;
  return decided_;
}

void Coordinator::RequestReplan(std::string why) {
  const bool known = std::find(replan_.begin(), replan_.end(), why) != replan_.end();
  if (!known && replan_.size() < kMaxCauses) replan_.push_back(std::move(why));
}

Decisions Coordinator::Replan() {
  const std::vector<std::string> causes = std::exchange(replan_, {});
  std::vector<std::string> moved;
  Decisions decisions = plan_.Decide(*objects_, ResolvedView());
  for (const absl::Status& trouble : decisions.trouble) {
    log_->Warning("cannot propose a strategy: ", std::string(trouble.message()));
    rollouts_.OnPolicyFailed();
  }
  for (Decision& decision : decisions.changed) {
    const auto record = registry_.communicators().find(decision.id);
    if (record == registry_.communicators().end())
      continue;  // Its daemons have not reconnected yet.
    if (registry_.hosts().at(record->second.leader).state != HostState::kReady) continue;
    if (paused_until_.contains(decision.id)) continue;
    moved.push_back(absl::StrCat(NameOf(decision.id), ": ", decision.change));
    log_->Info(moved.back());
    Propose(decision.id, std::move(decision.strategy));
  }
  if (!moved.empty() && !causes.empty()) {  // No causes: an operator's change.
    events_.Record(
        {"replan", FirstOf(moved), absl::StrCat("proposed: ", absl::StrJoin(causes, ", "))},
        clock_->Now());
  }
  const ClusterView& proposed = ResolvedView();
  plan_.Update(*objects_, proposed);
  UpdateRateLimits(proposed);
  probes_.SetTargets(ProbeTargets(*objects_, proposed, plan_.fabrics()), clock_->Now());
  SendProbes();
  for (Decision& decision : decisions.changed) decision.strategy.Clear();
  return decisions;
}

void Coordinator::SendProbes() {
  for (auto& [agent, probe] : probes_.TakeDueProbes(registry_, clock_->Now()))
    *AddMessage(agent).mutable_probe() = std::move(probe);
}

void Coordinator::UpdateRateLimits(const ClusterView& view) {
  DecidedRateLimits decided = DecideRateLimits(*objects_, view, plan_.fabrics());
  planned_limits_ = std::move(decided.paces);
  RecordUnmetGuarantees({decided.broken.begin(), decided.broken.end()});
  // Communicators whose daemons have not reconnected get theirs later.
  std::erase_if(planned_limits_, [&](const PlannedRateLimits& limits) {
    return !registry_.communicators().contains(limits.id);
  });
  windows_.SetRules(DecideWaitRules(*objects_, view, plan_.fabrics()));
  windows_.UpdateAll(clock_->Now(), clocks_);
  SendRateLimits();
}

// Logs guarantees that links can no longer hold, and those that they hold again.
void Coordinator::RecordUnmetGuarantees(std::set<std::string> broken) {
  for (const std::string& text : broken) {
    if (unmet_guarantees_.contains(text)) continue;
    log_->Warning("guarantees were lowered, in proportion: ", text);
    events_.Record({"lower guarantees", "", absl::StrCat("done: lowered in proportion: ", text)},
                   clock_->Now());
  }
  for (const std::string& text : unmet_guarantees_) {
    if (broken.contains(text)) continue;
    log_->Info("guarantees are restored: ", text);
    events_.Record({"restore guarantees", "", absl::StrCat("done: resolved: ", text)},
                   clock_->Now());
  }
  unmet_guarantees_ = std::move(broken);
}

void Coordinator::SendRateLimits() {
  std::vector<PlannedRateLimits> planned = planned_limits_;
  windows_.ApplyTo(&planned);
  for (const agent::v1::RateLimits& limits : sent_limits_.Update(planned, lifts_old_limits_)) {
    const auto record = registry_.communicators().find(CommId(limits.comm_id()));
    if (record == registry_.communicators().end()) continue;  // It has ended.
    for (const std::string& name : record->second.announced.hosts()) {
      const auto host = registry_.hosts().find(name);
      if (host == registry_.hosts().end() || host->second.state != HostState::kReady) continue;
      *AddMessage(host->second.agent).mutable_rate_limits() = ToHostClock(name, limits);
    }
  }
}

agent::v1::RateLimits Coordinator::ToHostClock(const std::string& host,
                                               agent::v1::RateLimits limits) const {
  if (!limits.has_send_windows()) return limits;
  if (const std::optional<ClockReading> clock = clocks_.Read(host, clock_->Now())) {
    limits.mutable_send_windows()->set_origin_ns(clock->OnHost(limits.send_windows().origin_ns()));
  } else {
    limits.clear_send_windows();
  }
  return limits;
}

// REQUIRES: the leader's host is ready.
void Coordinator::Propose(CommId id, strategy::Strategy strategy) {
  const strategy::Strategy& proposed = registry_.Propose(id, std::move(strategy), clock_->Now());
  const CommunicatorRecord& record = registry_.communicators().at(id);
  rollouts_.OnProposed(id, record, proposed, clock_->Now());
  strategies_.MarkChanged(id);
  agent::v1::Propose* out = AddMessage(registry_.hosts().at(record.leader).agent).mutable_propose();
  out->set_comm_id(id.value());
  *out->mutable_strategy() = proposed;
}

void Coordinator::PauseProposals(CommId id, const std::string& why) {
  log_->Warning(NameOf(id), " did not apply the proposal: ", why);
  events_.Record({"drop a proposal", NameOf(id), absl::StrCat("done: ", why)}, clock_->Now());
  paused_until_[id] = clock_->Now() + kProposalTimeoutNs;
}

void Coordinator::ExpireProposals() {
  const MonotonicNs now = clock_->Now();
  for (const auto& [id, record] : registry_.communicators()) {
    if (record.proposed.empty() || now - record.proposed_at <= kProposalTimeoutNs) continue;
    registry_.DropProposals(id);
    strategies_.MarkChanged(id);
    PauseProposals(id, "proposal timed out: no reply from the leader");
  }
  const size_t before = paused_until_.size();
  std::erase_if(paused_until_, [&](const auto& entry) { return entry.second <= now; });
  if (paused_until_.size() < before) RequestReplan("failed proposals are retried");
}

void Coordinator::Refuse(AgentKey agent, const agent::v1::Host& host, const absl::Status& why) {
  const std::string text(why.message());
  if (IsFirstRefusal(host)) {  // The daemon retries; only the first refusal is logged.
    log_->Warning("host '", host.name(), "' refused: ", text);
    events_.Record({"reject a daemon", absl::StrCat("host '", host.name(), "'"),
                    absl::StrCat("rejected: ", text)},
                   clock_->Now());
  }
  registry_.RecordRefused(host, text, clock_->Now());
  End(agent, why);
}

bool Coordinator::IsFirstRefusal(const agent::v1::Host& host) {
  if (refused_.size() >= Registry::kMaxHosts) refused_.clear();
  return refused_.emplace(host.name(), host.peer_endpoint()).second;
}

void Coordinator::RefuseMisplacedHosts() {
  std::vector<std::pair<AgentKey, absl::Status>> misplaced;
  for (const auto& [agent, name] : host_of_) {
    absl::Status status = CheckTopologyName(name, registry_.hosts().at(name).topology, *objects_);
    if (!status.ok()) misplaced.emplace_back(agent, std::move(status));
  }
  for (const auto& [agent, why] : misplaced) {
    const agent::v1::Host host = registry_.hosts().at(host_of_.at(agent)).host;
    OnStreamClosed(agent, std::string(why.message()));
    Refuse(agent, host, why);
  }
}

void Coordinator::SendTenants() {
  agent::v1::Tenants tenants = TenantsOf(*objects_);
  if (google::protobuf::util::MessageDifferencer::Equals(tenants, tenants_)) return;
  tenants_ = std::move(tenants);
  for (const auto& [agent, host] : host_of_) *AddMessage(agent).mutable_tenants() = tenants_;
}

agent::v1::ToAgent& Coordinator::AddMessage(AgentKey agent) {
  return outbox_.emplace_back(Outgoing{agent, agent::v1::ToAgent(), absl::OkStatus()})
      .message.value();
}

void Coordinator::End(AgentKey agent, absl::Status why) {
  outbox_.push_back({agent, std::nullopt, std::move(why)});
}

void Coordinator::OnStreamClosed(AgentKey agent, const std::string& why) {
  const auto known = host_of_.find(agent);
  if (known == host_of_.end()) return;
  log_->Warning("host ", known->second, " lost: ", why);
  registry_.MarkLost(known->second, why, clock_->Now());
  RequestReplan(absl::StrCat("host ", known->second, " lost"));
  dumps_.OnHostLost(known->second, why);
  probes_.OnHostLost(known->second);
  host_of_.erase(known);
}

// Others may use the released resources.
void Coordinator::ExpireDisconnected() {
  const MonotonicNs now = clock_->Now();
  for (const CommId id : registry_.RemoveOrphans(now - kOrphanTimeoutNs))
    RequestReplan(NameOf(id) + " expired: its leader did not reconnect");
  rollouts_.Prune(registry_.communicators());
  if (now - started_ > kOrphanTimeoutNs && strategies_.DropUnannounced())
    RequestReplan("recovered communicators expired: their daemons did not reconnect");
}

void Coordinator::Tick() {
  const MonotonicNs now = clock_->Now();
  dumps_.Expire(now);
  std::vector<AgentKey> silent;
  for (const auto& [agent, host] : host_of_) {
    if (now - registry_.hosts().at(host).received_at > options_.heartbeat_timeout_ns)
      silent.push_back(agent);
  }
  for (AgentKey agent : silent) {
    const std::string why =
        absl::StrCat("no message for more than ", options_.heartbeat_timeout_ns / kNsPerMs, " ms");
    OnStreamClosed(agent, why);
    End(agent, absl::DeadlineExceededError(why));
  }
  ExpireDisconnected();
  ExpireProposals();
  for (const CostCalibrator::CostUpdate& update :
       costs_.FindUpdates(registry_.communicators(), now)) {
    registry_.SetCosts(update.id, update.costs);
    RequestReplan(absl::StrCat("costs of ", NameOf(update.id), " measured"));
  }
  const bool lifted = std::exchange(lifts_old_limits_, now - started_ >= kLiftOldLimitsAfterNs);
  if (!replan_.empty()) {
    Replan();
  } else {
    if (windows_.UpdateAll(now, clocks_) || lifts_old_limits_ != lifted) SendRateLimits();
    SendProbes();
  }
}

absl::StatusOr<uint64_t> Coordinator::RequestState(const std::string& host) {
  MCCS_ASSIGN_OR_RETURN(const uint64_t request_id, dumps_.Add(registry_, host, clock_->Now()));
  AddMessage(registry_.hosts().at(host).agent).mutable_dump()->set_request_id(request_id);
  return request_id;
}

std::vector<Outgoing> Coordinator::TakeOutbox() { return std::exchange(outbox_, {}); }

}  // namespace mccs
