#include "controller/coordinator.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "controller/contradictions.h"
#include "controller/paces.h"
#include "controller/probe_wishes.h"
#include "controller/tenants.h"

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
      paces_(options_.last_pace_revision),
      windows_(log),
      costs_(options_.calibrate_costs, log),
      probes_(log) {}

ClusterView Coordinator::View() const {
  ClusterView view = strategies_.With(registry_.View());
  view.probed = probes_.known();
  return view;
}

void Coordinator::Hear(AgentKey agent, const agent::FromAgent& message) {
  if (message.has_registration()) return HearRegister(agent, message.registration());
  const auto known = host_of_.find(agent);
  if (known == host_of_.end()) {
    return End(agent, absl::FailedPreconditionError("an agent's first message must be Register"));
  }
  const std::string& host = known->second;
  registry_.Heard(host, clock_->Now());
  switch (message.kind_case()) {
    case agent::FromAgent::kHeartbeat:
      HearHeartbeat(agent, host, message.heartbeat());
      break;
    case agent::FromAgent::kAnnounce:
      HearAnnounce(host, message.announce());
      break;
    case agent::FromAgent::kReport:
      HearReport(host, message.report());
      break;
    case agent::FromAgent::kEnded:
      log_->Info("communicator ", FormatCommId(CommId(message.ended().comm_id())), " ended on ",
                 host, ": ", message.ended().why());
      registry_.Ended(host, CommId(message.ended().comm_id()));
      ReplanSince(NameOf(CommId(message.ended().comm_id())) + " ended");
      // Communicators that wait for it get new windows at once.
      if (windows_.Forget(CommId(message.ended().comm_id())) &&
          windows_.Update(clock_->Now(), clocks_)) {
        TellPaces();
      }
      break;
    case agent::FromAgent::kDumped:
      questions_.Hear(host, message.dumped().question(), message.dumped().state());
      break;
    case agent::FromAgent::kProbed:
      if (probes_.Hear(host, message.probed(), clock_->Now()))
        ReplanSince(absl::StrCat("host ", host, " probed paths"));
      break;
    default:
      break;  // A kind of a later protocol version.
  }
}

void Coordinator::HearRegister(AgentKey agent, const agent::Register& registration) {
  const agent::Host& host = registration.host();
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
  probes_.Lost(host.name());
  if (replaces) {
    host_of_.erase(old);
    End(old, absl::AbortedError("the daemon opened another stream"));
  }
  host_of_[agent] = host.name();
  refused_.erase(std::pair(host.name(), host.peer_endpoint()));
  clocks_.Forget(host.name());
  for (const agent::Announce& led : registration.communicators()) {
    strategies_.Touch(CommId(led.comm_id()));
  }
  ReplanSince(absl::StrCat("host ", host.name(), " registered"));
  log_->Info("host ", host.name(), " registered: ", host.gpus_size(), " GPUs, peer endpoint ",
             host.peer_endpoint(), ", leads ", registration.communicators_size(), " communicators");
  agent::Registered* registered = Tell(agent).mutable_registered();
  registered->set_heartbeat_every_ns(options_.heartbeat_timeout_ns / kHeartbeatsPerTimeout);
  registered->set_heartbeat_timeout_ns(options_.heartbeat_timeout_ns);
  registered->set_version(options_.version);
  *registered->mutable_tenants() = tenants_;
  for (agent::Pace& pace : paces_.HeldOn(host.name(), registry_.communicators())) {
    *Tell(agent).mutable_pace() = OnClockOf(host.name(), std::move(pace));
  }
}

void Coordinator::HearHeartbeat(AgentKey agent, const std::string& host,
                                const agent::Heartbeat& beat) {
  const MonotonicNs now = clock_->Now();
  if (beat.heard_sent_ns() != 0) {
    clocks_.Hear(host, {.sent = beat.heard_sent_ns(),
                        .heard = beat.heard_ns(),
                        .answered = beat.sent_ns(),
                        .came = now});
  }
  Tell(agent).mutable_heartbeat()->set_sent_ns(now);
}

void Coordinator::HearAnnounce(const std::string& host, const agent::Announce& announce) {
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
    registry_.GiveUpProposals(id);  // It waits for its first proposal.
  }
  strategies_.Touch(id);
  // Others may have to release resources.
  ReplanSince(absl::StrCat(NameOf(id), announce.running() ? " changed" : " was announced"));
  if (announce.running()) return;
  for (const std::string& name : announce.hosts()) {
    if (FindHostDrain(*objects_, name) == nullptr) continue;
    log_->Warning("communicator ", FormatCommId(id), " of ", announce.tenant(), " starts on host ",
                  name, ", which is drained");
  }
  const ClusterView& view = Complete();
  absl::StatusOr<strategy::Strategy> strategy = plan_.Choose(*objects_, view, id);
  if (!strategy.ok()) {
    // The leader continues with its own default.
    log_->Warning("cannot propose a strategy: ", std::string(strategy.status().message()));
    rollouts_.Failed();
    return;
  }
  // With an address that a host does not have, the communicator would never form, and it has no
  // earlier strategy. Hosts that register later get their addresses then.
  LeaveOutUnknownAddresses(view, {announce.hosts().begin(), announce.hosts().end()}, &*strategy);
  Propose(id, *std::move(strategy));
}

void Coordinator::HearReport(const std::string& host, const agent::Report& report) {
  const CommId id(report.comm_id());
  rollouts_.Reported(id, host, report, clock_->Now());
  if (LanesBroke(registry_, host, report)) probes_.LinksChanged(host);
  if (registry_.Report(host, report)) {
    LeaveAlone(id, report.change_trouble());
    strategies_.Touch(id);
  }
  const auto record = registry_.communicators().find(id);
  const bool is_a_member =
      record != registry_.communicators().end() && record->second.reports.contains(host);
  if (is_a_member && windows_.Hear(host, report) && windows_.Update(clock_->Now(), clocks_))
    TellPaces();
}

void Coordinator::SetObjects(std::shared_ptr<const ObjectSet> objects) {
  if (!SameLinks(*objects_, *objects)) probes_.LinksChanged();
  objects_ = std::move(objects);
  left_alone_until_.clear();
  RefuseTheMisplaced();
  TellTenants();
  if (!replan_.empty()) ReplanSince("an operator's change");
  decided_ = Replan();
}

std::optional<Decisions> Coordinator::DecidedOn(uint64_t revision) const {
  if (objects_->revision != revision) return std::nullopt;
  return decided_;
}

void Coordinator::ReplanSince(std::string why) {
  const bool known = std::find(replan_.begin(), replan_.end(), why) != replan_.end();
  if (!known && replan_.size() < kMaxCauses) replan_.push_back(std::move(why));
}

Decisions Coordinator::Replan() {
  const std::vector<std::string> causes = std::exchange(replan_, {});
  std::vector<std::string> moved;
  Decisions decisions = plan_.Decide(*objects_, Complete());
  for (const absl::Status& trouble : decisions.trouble) {
    log_->Warning("cannot propose a strategy: ", std::string(trouble.message()));
    rollouts_.Failed();
  }
  for (Decision& decision : decisions.changed) {
    const auto record = registry_.communicators().find(decision.id);
    if (record == registry_.communicators().end())
      continue;  // Its daemons have not reconnected yet.
    if (registry_.hosts().at(record->second.leader).state != HostState::kReady) continue;
    if (left_alone_until_.contains(decision.id)) continue;
    moved.push_back(absl::StrCat(NameOf(decision.id), ": ", decision.change));
    log_->Info(moved.back());
    Propose(decision.id, std::move(decision.strategy));
  }
  if (!moved.empty() && !causes.empty()) {  // No causes: an operator's change.
    own_.Note({"replan", FirstOf(moved), absl::StrCat("proposed: ", absl::StrJoin(causes, ", "))},
              clock_->Now());
  }
  const ClusterView& proposed = Complete();
  plan_.Follow(*objects_, proposed);
  SendPaces(proposed);
  probes_.Wish(WishedProbes(*objects_, proposed, plan_.fabrics()), clock_->Now());
  SendProbes();
  for (Decision& decision : decisions.changed) decision.strategy.Clear();
  return decisions;
}

void Coordinator::SendProbes() {
  for (auto& [agent, probe] : probes_.Due(registry_, clock_->Now()))
    *Tell(agent).mutable_probe() = std::move(probe);
}

void Coordinator::SendPaces(const ClusterView& view) {
  DecidedPaces decided = DecidePaces(*objects_, view, plan_.fabrics());
  planned_paces_ = std::move(decided.paces);
  NoteBroken({decided.broken.begin(), decided.broken.end()});
  // Communicators whose daemons have not reconnected get theirs later.
  std::erase_if(planned_paces_, [&](const PlannedPace& pace) {
    return !registry_.communicators().contains(pace.id);
  });
  windows_.SetRules(DecideWaits(*objects_, view, plan_.fabrics()));
  windows_.UpdateAll(clock_->Now(), clocks_);
  TellPaces();
}

// Logs guarantees that links can no longer hold, and those that they hold again.
void Coordinator::NoteBroken(std::set<std::string> broken) {
  for (const std::string& text : broken) {
    if (broken_.contains(text)) continue;
    log_->Warning("guarantees were lowered, in proportion: ", text);
    own_.Note({"lower guarantees", "", absl::StrCat("done: lowered in proportion: ", text)},
              clock_->Now());
  }
  for (const std::string& text : broken_) {
    if (broken.contains(text)) continue;
    log_->Info("guarantees are restored: ", text);
    own_.Note({"restore guarantees", "", absl::StrCat("done: resolved: ", text)}, clock_->Now());
  }
  broken_ = std::move(broken);
}

void Coordinator::TellPaces() {
  std::vector<PlannedPace> planned = planned_paces_;
  windows_.ApplyTo(&planned);
  for (const agent::Pace& pace : paces_.Update(planned, lifts_)) {
    const auto record = registry_.communicators().find(CommId(pace.comm_id()));
    if (record == registry_.communicators().end()) continue;  // It has ended.
    for (const std::string& name : record->second.announced.hosts()) {
      const auto host = registry_.hosts().find(name);
      if (host == registry_.hosts().end() || host->second.state != HostState::kReady) continue;
      *Tell(host->second.agent).mutable_pace() = OnClockOf(name, pace);
    }
  }
}

agent::Pace Coordinator::OnClockOf(const std::string& host, agent::Pace pace) const {
  if (!pace.has_windows()) return pace;
  if (const std::optional<ClockReading> clock = clocks_.Read(host, clock_->Now())) {
    pace.mutable_windows()->set_origin_ns(clock->OnHost(pace.windows().origin_ns()));
  } else {
    pace.clear_windows();
  }
  return pace;
}

// REQUIRES: the leader's host is ready.
void Coordinator::Propose(CommId id, strategy::Strategy strategy) {
  const strategy::Strategy& proposed = registry_.Propose(id, std::move(strategy), clock_->Now());
  const CommunicatorRecord& record = registry_.communicators().at(id);
  rollouts_.Proposed(id, record, proposed, clock_->Now());
  strategies_.Touch(id);
  agent::Propose* out = Tell(registry_.hosts().at(record.leader).agent).mutable_propose();
  out->set_comm_id(id.value());
  *out->mutable_strategy() = proposed;
}

void Coordinator::LeaveAlone(CommId id, const std::string& why) {
  log_->Warning(NameOf(id), " did not apply the proposal: ", why);
  own_.Note({"give up a proposal", NameOf(id), absl::StrCat("done: ", why)}, clock_->Now());
  left_alone_until_[id] = clock_->Now() + kProposalPatienceNs;
}

void Coordinator::GiveUpStaleProposals() {
  const MonotonicNs now = clock_->Now();
  for (const auto& [id, record] : registry_.communicators()) {
    if (record.proposed.empty() || now - record.proposed_at <= kProposalPatienceNs) continue;
    registry_.GiveUpProposals(id);
    strategies_.Touch(id);
    LeaveAlone(id, "proposal timed out: no reply from the leader");
  }
  const size_t before = left_alone_until_.size();
  std::erase_if(left_alone_until_, [&](const auto& entry) { return entry.second <= now; });
  if (left_alone_until_.size() < before) ReplanSince("failed proposals are retried");
}

void Coordinator::Refuse(AgentKey agent, const agent::Host& host, const absl::Status& why) {
  const std::string text(why.message());
  if (IsFirstRefusalOf(host)) {  // The daemon retries; only the first refusal is logged.
    log_->Warning("host '", host.name(), "' refused: ", text);
    own_.Note({"refuse a daemon", absl::StrCat("host '", host.name(), "'"),
               absl::StrCat("refused: ", text)},
              clock_->Now());
  }
  registry_.NoteRefused(host, text, clock_->Now());
  End(agent, why);
}

bool Coordinator::IsFirstRefusalOf(const agent::Host& host) {
  if (refused_.size() >= Registry::kMaxHosts) refused_.clear();
  return refused_.emplace(host.name(), host.peer_endpoint()).second;
}

void Coordinator::RefuseTheMisplaced() {
  std::vector<std::pair<AgentKey, absl::Status>> misplaced;
  for (const auto& [agent, name] : host_of_) {
    absl::Status status = CheckTopologyName(name, registry_.hosts().at(name).topology, *objects_);
    if (!status.ok()) misplaced.emplace_back(agent, std::move(status));
  }
  for (const auto& [agent, why] : misplaced) {
    const agent::Host host = registry_.hosts().at(host_of_.at(agent)).host;
    Gone(agent, std::string(why.message()));
    Refuse(agent, host, why);
  }
}

void Coordinator::TellTenants() {
  agent::Tenants tenants = TenantsOf(*objects_);
  if (google::protobuf::util::MessageDifferencer::Equals(tenants, tenants_)) return;
  tenants_ = std::move(tenants);
  for (const auto& [agent, host] : host_of_) *Tell(agent).mutable_tenants() = tenants_;
}

agent::ToAgent& Coordinator::Tell(AgentKey agent) {
  return outbox_.emplace_back(Outgoing{agent, agent::ToAgent(), absl::OkStatus()}).message.value();
}

void Coordinator::End(AgentKey agent, absl::Status why) {
  outbox_.push_back({agent, std::nullopt, std::move(why)});
}

void Coordinator::Gone(AgentKey agent, const std::string& why) {
  const auto known = host_of_.find(agent);
  if (known == host_of_.end()) return;
  log_->Warning("host ", known->second, " lost: ", why);
  registry_.Lose(known->second, why, clock_->Now());
  ReplanSince(absl::StrCat("host ", known->second, " lost"));
  questions_.Lost(known->second, why);
  probes_.Lost(known->second);
  host_of_.erase(known);
}

// Others may use the released resources.
void Coordinator::ForgetWhoStaysAway() {
  const MonotonicNs now = clock_->Now();
  for (const CommId id : registry_.ForgetOrphans(now - kForgetOrphansAfterNs))
    ReplanSince(NameOf(id) + " expired: its leader did not reconnect");
  rollouts_.Prune(registry_.communicators());
  if (now - started_ > kForgetOrphansAfterNs && strategies_.ForgetTheUnannounced())
    ReplanSince("recovered communicators expired: their daemons did not reconnect");
}

void Coordinator::Tick() {
  const MonotonicNs now = clock_->Now();
  questions_.Expire(now);
  std::vector<AgentKey> silent;
  for (const auto& [agent, host] : host_of_) {
    if (now - registry_.hosts().at(host).heard > options_.heartbeat_timeout_ns)
      silent.push_back(agent);
  }
  for (AgentKey agent : silent) {
    const std::string why =
        absl::StrCat("no message for more than ", options_.heartbeat_timeout_ns / kNsPerMs, " ms");
    Gone(agent, why);
    End(agent, absl::DeadlineExceededError(why));
  }
  ForgetWhoStaysAway();
  GiveUpStaleProposals();
  for (const CostKeeper::Wish& wish : costs_.Look(registry_.communicators(), now)) {
    registry_.SetCosts(wish.id, wish.costs);
    ReplanSince(absl::StrCat("costs of ", NameOf(wish.id), " measured"));
  }
  const bool lifted = std::exchange(lifts_, now - started_ >= kLiftAfterNs);
  if (!replan_.empty()) {
    Replan();
  } else {
    if (windows_.UpdateAll(now, clocks_) || lifts_ != lifted) TellPaces();
    SendProbes();
  }
}

absl::StatusOr<uint64_t> Coordinator::AskState(const std::string& host) {
  MCCS_ASSIGN_OR_RETURN(const uint64_t question, questions_.Ask(registry_, host, clock_->Now()));
  Tell(registry_.hosts().at(host).agent).mutable_dump()->set_question(question);
  return question;
}

std::vector<Outgoing> Coordinator::TakeOutbox() { return std::exchange(outbox_, {}); }

}  // namespace mccs
