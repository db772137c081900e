// The part of the Coordinator that computes what agents should have, and sends them the
// differences.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/coordinator/coordinator.h"
#include "controller/coordinator/registration.h"
#include "controller/measurement/probe_targets.h"
#include "controller/measurement/report_interval.h"
#include "controller/rates/rate_limits.h"
#include "controller/state/audit_actions.h"
#include "controller/state/topology_mismatch.h"
#include "proto/same_message.h"

namespace mccs {
namespace {

constexpr size_t kMaxMovedShown = 5;

std::string FirstOf(const std::vector<std::string>& texts) {
  const size_t shown = std::min(texts.size(), kMaxMovedShown);
  std::string text =
      absl::StrJoin(texts.begin(), texts.begin() + static_cast<int64_t>(shown), "; ");
  if (shown < texts.size()) absl::StrAppend(&text, "; and ", texts.size() - shown, " more");
  return text;
}

}  // namespace

Decisions Coordinator::Reconcile() {
  const Stale stale = std::exchange(stale_, {});
  Decisions decisions;
  for (const CommId id : stale.first_strategies) ChooseFirstStrategy(id);
  if (stale.plan) {
    decisions = ChooseStrategies();
    const ClusterView& proposed = ResolvedView();
    planner_.Update(*state_.objects, proposed);
    PlanRateLimits(proposed);
    probes_.SetTargets(ProbeTargets(*state_.objects, proposed, planner_.fabrics()), clock_->Now());
  }
  for (const CommId id : windows_.Update(clock_->Now(), state_.clocks))
    state_.limits.SetWindows(id, windows_.WindowsOf(id));
  SendDifferences(stale);
  return decisions;
}

void Coordinator::ChooseFirstStrategy(CommId id) {
  const ClusterView& view = ResolvedView();
  absl::StatusOr<strategy::Strategy> strategy = planner_.DecideOne(*state_.objects, view, id);
  if (!strategy.ok()) {
    // The leader continues with its own default.
    log_->Warning("cannot propose a strategy: ", std::string(strategy.status().message()));
    ++state_.policy_failures;
    return;
  }
  // With an address that a host does not have, the communicator would never form, and it has no
  // earlier strategy. Hosts that register later get their addresses then.
  const auto& hosts = state_.registry.communicators().at(id).announced.hosts();
  RemoveUnknownAddresses(view, {hosts.begin(), hosts.end()}, &*strategy);
  Propose(id, *std::move(strategy));
}

Decisions Coordinator::ChooseStrategies() {
  const std::vector<std::string> causes = std::exchange(causes_, {});
  std::vector<std::string> moved;
  Decisions decisions = planner_.Decide(*state_.objects, ResolvedView());
  for (const absl::Status& trouble : decisions.trouble) {
    log_->Warning("cannot propose a strategy: ", std::string(trouble.message()));
    ++state_.policy_failures;
  }
  for (Decision& decision : decisions.changed) {
    const strategy::Strategy strategy = std::exchange(decision.strategy, {});
    const auto record = state_.registry.communicators().find(decision.id);
    if (record == state_.registry.communicators().end())
      continue;  // Its daemons have not reconnected yet.
    if (state_.registry.hosts().at(record->second.leader).state != HostState::kReady) continue;
    if (state_.paused_until.contains(decision.id)) continue;
    moved.push_back(absl::StrCat(NameOf(decision.id), ": ", decision.change));
    log_->Info(moved.back());
    Propose(decision.id, strategy);
  }
  if (!moved.empty() && !causes.empty()) {  // No causes: an operator's change.
    events_.Record(
        {kAuditReplan, FirstOf(moved), absl::StrCat("proposed: ", absl::StrJoin(causes, ", "))},
        clock_->Now());
  }
  return decisions;
}

void Coordinator::Propose(CommId id, strategy::Strategy strategy) {
  state_.registry.Propose(id, std::move(strategy), clock_->Now());
  state_.strategies.MarkChanged(id);
  unsent_proposals_.push_back(id);
}

void Coordinator::PlanRateLimits(const ClusterView& view) {
  DecidedRateLimits decided = DecideRateLimits(*state_.objects, view, planner_.fabrics());
  RecordUnmetGuarantees({decided.broken.begin(), decided.broken.end()});
  windows_.SetRules(DecideWaitRules(*state_.objects, view, planner_.fabrics()));
  // Communicators whose daemons have not reconnected get theirs later.
  std::erase_if(decided.limits, [&](const agent::v1::RateLimits& limits) {
    return !state_.registry.communicators().contains(CommId(limits.comm_id()));
  });
  for (agent::v1::RateLimits& limits : decided.limits)
    PutWindows(windows_.WindowsOf(CommId(limits.comm_id())), &limits);
  state_.limits.SetLimits(std::move(decided.limits));
}

void Coordinator::RecordUnmetGuarantees(std::set<std::string> unmet) {
  for (const std::string& text : unmet) {
    if (unmet_guarantees_.contains(text)) continue;
    log_->Warning("guarantees were lowered proportionally: ", text);
    events_.Record(
        {kAuditLowerGuarantees, "", absl::StrCat("done: lowered proportionally: ", text)},
        clock_->Now());
  }
  for (const std::string& text : unmet_guarantees_) {
    if (unmet.contains(text)) continue;
    log_->Info("guarantees are restored: ", text);
    events_.Record({kAuditRestoreGuarantees, "", absl::StrCat("done: resolved: ", text)},
                   clock_->Now());
  }
  unmet_guarantees_ = std::move(unmet);
}

void Coordinator::SendDifferences(const Stale& stale) {
  if (stale.objects) {
    agent::v1::Tenants tenants = TenantsOf(*state_.objects);
    tenants.set_id_key(options_.id_key);
    if (!IsSameMessage(tenants, state_.tenants)) {
      state_.tenants = std::move(tenants);
      for (const auto& [agent, host] : state_.host_of)
        *AddMessage(agent).mutable_tenants() = state_.tenants;
    }
  }
  for (const NamedRendezvousTable::Answer& answer : named_rendezvous_.TakeAnswers()) {
    const auto& hosts = state_.registry.hosts();
    agent::v1::FoundRendezvous* found =
        AddMessage(hosts.at(answer.to).agent).mutable_found_rendezvous();
    found->set_id(answer.id);
    found->set_host(answer.host);
    found->set_peer_endpoint(hosts.at(answer.host).host.peer_endpoint());
  }
  for (const CommId id : std::exchange(unsent_proposals_, {})) {
    const CommunicatorRecord& record = state_.registry.communicators().at(id);
    const AgentKey leader = state_.registry.hosts().at(record.leader).agent;
    agent::v1::Propose* propose = AddMessage(leader).mutable_propose();
    propose->set_comm_id(id.value());
    *propose->mutable_strategy() = record.Newest();
  }
  for (SentLimits::Update& update :
       state_.limits.TakeUpdates(state_.registry, state_.clocks, clock_->Now())) {
    *AddMessage(update.to).mutable_rate_limits() = std::move(update.limits);
  }
  if (stale.time) SendReportInterval();
  if (!stale.plan && !stale.time) return;
  for (auto& [agent, probe] : probes_.TakeDueProbes(state_.registry, clock_->Now()))
    *AddMessage(agent).mutable_probe() = std::move(probe);
}

void Coordinator::SendReportInterval() {
  const size_t hosts = state_.host_of.size();
  const int64_t interval = NextReportInterval(state_.report_every_ns, hosts);
  if (interval == state_.report_every_ns) return;
  log_->Info("daemons report every ", interval / kNsPerMs, " ms: ", hosts, " hosts are connected");
  state_.report_every_ns = interval;
  windows_.SetReportInterval(interval);
  for (const auto& [agent, host] : state_.host_of)
    AddMessage(agent).mutable_report_interval()->set_every_ns(interval);
}

}  // namespace mccs
