#include "controller/measurement/probe_scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "topology/five_tuple.h"

namespace mccs {
namespace {

// Limit of hops that are read per flow.
constexpr int kMaxHops = 16;

agent::v1::ProbeFlow ToMessage(const ProbeTarget& target) {
  agent::v1::ProbeFlow flow;
  flow.set_source(FormatIpv4(target.flow.source_address));
  flow.set_destination(FormatIpv4(target.flow.destination_address));
  flow.set_protocol(target.flow.protocol);
  flow.set_source_port(target.flow.source_port);
  flow.set_destination_port(target.flow.destination_port);
  flow.set_switches(static_cast<uint32_t>(target.switches));
  return flow;
}

Hops HopsOf(const agent::v1::ProbedFlow& found) {
  Hops hops;
  for (const std::string& hop : found.hops()) hops.push_back(ParseIpv4(hop).value_or(0));
  return hops;
}

}  // namespace

void ProbeScheduler::SetTargets(std::vector<ProbeTarget> targets, MonotonicNs now) {
  targets_ = std::move(targets);
  for (const ProbeTarget& target : targets_) entries_.try_emplace(target.flow);
  Remove(now);
}

std::vector<std::pair<AgentKey, agent::v1::Probe>> ProbeScheduler::TakeDueProbes(
    const Registry& registry, MonotonicNs now) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.until <= now; });
  std::map<std::string, std::pair<AgentKey, agent::v1::Probe>> questions;
  for (const ProbeTarget& target : targets_) {
    const auto host = registry.hosts().find(target.host);
    if (host == registry.hosts().end() || host->second.state != HostState::kReady) continue;
    const auto open = open_.find(target.host);
    const bool asking = questions.contains(target.host);
    if (open != open_.end() && !asking) continue;
    if (asking && open->second.flows.size() >= kMaxFlowsPerRequest) continue;
    Entry& entry = entries_[target.flow];
    if (entry.due > now) continue;
    // Only flows in use are refreshed.
    if (!target.in_use && entry.received_at > 0) continue;
    entry.due = now + kRetryNs;
    Request& request_id = open_[target.host];
    if (!asking) request_id = {.number = next_++, .flows = {}, .until = now + kTimeoutNs};
    request_id.flows.push_back(target.flow);
    auto& [agent, probe] = questions[target.host];
    agent = host->second.agent;
    probe.set_request_id(request_id.number);
    *probe.add_flows() = ToMessage(target);
  }
  std::vector<std::pair<AgentKey, agent::v1::Probe>> due;
  for (auto& [host, request_id] : questions) due.push_back(std::move(request_id));
  return due;
}

bool ProbeScheduler::Handle(const std::string& host, const agent::v1::Probed& probed,
                            MonotonicNs now) {
  const auto open = open_.find(host);
  if (open == open_.end() || open->second.number != probed.request_id()) return false;
  const std::vector<FiveTuple> flows = std::move(open->second.flows);
  open_.erase(open);
  const bool fits = static_cast<size_t>(probed.flows_size()) == flows.size() &&
                    std::ranges::all_of(probed.flows(), [](const agent::v1::ProbedFlow& found) {
                      return found.hops_size() <= kMaxHops;
                    });
  if (!fits) {
    LogFailure(host, "its answer does not match the request");
    return false;
  }
  std::shared_ptr<ProbedPaths> next;  // null: no change
  std::string why_not;
  for (size_t i = 0; i < flows.size(); ++i) {
    const agent::v1::ProbedFlow& found = probed.flows(static_cast<int>(i));
    if (!found.error().empty()) {
      why_not = found.error();
      continue;
    }
    Hops hops = HopsOf(found);
    if (!Record(flows[i], hops, now)) continue;
    if (next == nullptr) next = std::make_shared<ProbedPaths>(*known_);
    next->Set(flows[i], std::move(hops));
  }
  LogFailure(host, why_not);
  if (next == nullptr) return false;
  known_ = std::move(next);
  return true;
}

bool ProbeScheduler::Record(const FiveTuple& flow, const Hops& hops, MonotonicNs now) {
  if (entries_.size() > kMaxKnown) return false;
  entries_[flow] = {.due = now + kRefreshNs, .received_at = now};
  const Hops* before = known_->Find(flow);
  return before == nullptr || *before != hops;
}

// Logs each error once.
void ProbeScheduler::LogFailure(const std::string& host, const std::string& why) {
  std::string& reported = last_error_[host];
  if (reported == why) return;
  reported = why;
  if (!why.empty()) log_->Warning("host ", host, " cannot probe the paths of its flows: ", why);
}

void ProbeScheduler::OnHostLost(const std::string& host) { open_.erase(host); }

void ProbeScheduler::Remove(MonotonicNs now) {
  std::set<FiveTuple> targeted;
  for (const ProbeTarget& target : targets_) targeted.insert(target.flow);
  std::shared_ptr<ProbedPaths> next;
  std::erase_if(entries_, [&](const auto& entry) {
    if (targeted.contains(entry.first) || now - entry.second.received_at <= kExpireNs) return false;
    if (known_->Find(entry.first) == nullptr) return true;
    if (next == nullptr) next = std::make_shared<ProbedPaths>(*known_);
    next->Erase(entry.first);
    return true;
  });
  if (next != nullptr) known_ = std::move(next);
}

void ProbeScheduler::LinksChanged(const std::string& host) {
  for (const ProbeTarget& target : targets_) {
    if (target.host == host && target.in_use) entries_[target.flow].due = 0;
  }
}

void ProbeScheduler::LinksChanged() {
  std::map<FiveTuple, Entry> kept;
  ProbedPaths paths;
  for (const ProbeTarget& target : targets_) {
    if (!target.in_use) continue;
    const Hops* hops = known_->Find(target.flow);
    kept[target.flow] = {.due = 0,
                         .received_at = hops != nullptr ? entries_[target.flow].received_at : 0};
    if (hops != nullptr) paths.Set(target.flow, *hops);
  }
  entries_ = std::move(kept);
  // Answers to open requests may describe the old links.
  open_.clear();
  known_ = std::make_shared<const ProbedPaths>(std::move(paths));
}

}  // namespace mccs
