#include "controller/probe_book.h"

#include <algorithm>
#include <set>
#include <utility>

#include "topology/five_tuple.h"

namespace mccs {
namespace {

// Limit of hops that are read per flow.
constexpr int kMaxHops = 16;

agent::ProbeFlow ToMessage(const ProbeWish& wish) {
  agent::ProbeFlow flow;
  flow.set_source(FormatIpv4(wish.flow.source_address));
  flow.set_destination(FormatIpv4(wish.flow.destination_address));
  flow.set_protocol(wish.flow.protocol);
  flow.set_source_port(wish.flow.source_port);
  flow.set_destination_port(wish.flow.destination_port);
  flow.set_switches(static_cast<uint32_t>(wish.switches));
  return flow;
}

Hops HopsOf(const agent::ProbedFlow& found) {
  Hops hops;
  for (const std::string& hop : found.hops()) hops.push_back(ParseIpv4(hop).value_or(0));
  return hops;
}

uint64_t ReconnectsIn(const agent::Report& report) {
  uint64_t reconnects = 0;
  for (const agent::Lane& lane : report.lanes()) reconnects += lane.reconnects();
  return reconnects;
}

}  // namespace

void ProbeBook::Wish(std::vector<ProbeWish> wishes, MonotonicNs now) {
  wishes_ = std::move(wishes);
  for (const ProbeWish& wish : wishes_) entries_.try_emplace(wish.flow);
  Forget(now);
}

std::vector<std::pair<AgentKey, agent::Probe>> ProbeBook::Due(const Registry& registry,
                                                              MonotonicNs now) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.until <= now; });
  std::map<std::string, std::pair<AgentKey, agent::Probe>> questions;
  for (const ProbeWish& wish : wishes_) {
    const auto host = registry.hosts().find(wish.host);
    if (host == registry.hosts().end() || host->second.state != HostState::kReady) continue;
    const auto open = open_.find(wish.host);
    const bool asking = questions.contains(wish.host);
    if (open != open_.end() && !asking) continue;
    if (asking && open->second.flows.size() >= kMaxFlowsOfQuestion) continue;
    Entry& entry = entries_[wish.flow];
    if (entry.due > now) continue;
    // Only flows in use are refreshed.
    if (!wish.in_use && entry.heard > 0) continue;
    entry.due = now + kRetryNs;
    Question& question = open_[wish.host];
    if (!asking) question = {.number = ++last_, .flows = {}, .until = now + kPatienceNs};
    question.flows.push_back(wish.flow);
    auto& [agent, probe] = questions[wish.host];
    agent = host->second.agent;
    probe.set_question(question.number);
    *probe.add_flows() = ToMessage(wish);
  }
  std::vector<std::pair<AgentKey, agent::Probe>> due;
  for (auto& [host, question] : questions) due.push_back(std::move(question));
  return due;
}

bool ProbeBook::Hear(const std::string& host, const agent::Probed& probed, MonotonicNs now) {
  const auto open = open_.find(host);
  if (open == open_.end() || open->second.number != probed.question()) return false;
  const std::vector<FiveTuple> flows = std::move(open->second.flows);
  open_.erase(open);
  const bool fits = static_cast<size_t>(probed.flows_size()) == flows.size() &&
                    std::ranges::all_of(probed.flows(), [](const agent::ProbedFlow& found) {
                      return found.hops_size() <= kMaxHops;
                    });
  if (!fits) {
    TellWhyNot(host, "its answer does not match the request");
    return false;
  }
  std::shared_ptr<ProbedPaths> next;  // null: no change
  std::string why_not;
  for (size_t i = 0; i < flows.size(); ++i) {
    const agent::ProbedFlow& found = probed.flows(static_cast<int>(i));
    if (!found.why_not().empty()) {
      why_not = found.why_not();
      continue;
    }
    Hops hops = HopsOf(found);
    if (!Note(flows[i], hops, now)) continue;
    if (next == nullptr) next = std::make_shared<ProbedPaths>(*known_);
    next->Set(flows[i], std::move(hops));
  }
  TellWhyNot(host, why_not);
  if (next == nullptr) return false;
  known_ = std::move(next);
  return true;
}

bool ProbeBook::Note(const FiveTuple& flow, const Hops& hops, MonotonicNs now) {
  if (entries_.size() > kMaxKnown) return false;
  entries_[flow] = {.due = now + kLookAgainNs, .heard = now};
  const Hops* before = known_->Find(flow);
  return before == nullptr || *before != hops;
}

// Logs each error once.
void ProbeBook::TellWhyNot(const std::string& host, const std::string& why) {
  std::string& told = why_not_[host];
  if (told == why) return;
  told = why;
  if (!why.empty()) log_->Warning("host ", host, " cannot probe the paths of its flows: ", why);
}

void ProbeBook::Lost(const std::string& host) { open_.erase(host); }

void ProbeBook::Forget(MonotonicNs now) {
  std::set<FiveTuple> wished;
  for (const ProbeWish& wish : wishes_) wished.insert(wish.flow);
  std::shared_ptr<ProbedPaths> next;
  std::erase_if(entries_, [&](const auto& entry) {
    if (wished.contains(entry.first) || now - entry.second.heard <= kForgetNs) return false;
    if (known_->Find(entry.first) == nullptr) return true;
    if (next == nullptr) next = std::make_shared<ProbedPaths>(*known_);
    next->Erase(entry.first);
    return true;
  });
  if (next != nullptr) known_ = std::move(next);
}

void ProbeBook::LinksChanged(const std::string& host) {
  for (const ProbeWish& wish : wishes_) {
    if (wish.host == host && wish.in_use) entries_[wish.flow].due = 0;
  }
}

void ProbeBook::LinksChanged() {
  std::map<FiveTuple, Entry> kept;
  ProbedPaths paths;
  for (const ProbeWish& wish : wishes_) {
    if (!wish.in_use) continue;
    const Hops* hops = known_->Find(wish.flow);
    kept[wish.flow] = {.due = 0, .heard = hops != nullptr ? entries_[wish.flow].heard : 0};
    if (hops != nullptr) paths.Set(wish.flow, *hops);
  }
  entries_ = std::move(kept);
  // Answers to open requests may describe the old links.
  open_.clear();
  known_ = std::make_shared<const ProbedPaths>(std::move(paths));
}

bool LanesBroke(const Registry& registry, const std::string& host, const agent::Report& report) {
  const auto known = registry.communicators().find(CommId(report.comm_id()));
  if (known == registry.communicators().end()) return false;
  const auto before = known->second.reports.find(host);
  return before != known->second.reports.end() &&
         ReconnectsIn(report) > ReconnectsIn(before->second);
}

}  // namespace mccs
