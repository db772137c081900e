#include "controller/state/unreachable_pairs.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"
#include "base/table.h"
#include "base/utf8.h"

namespace mccs {

void UnreachablePairs::AddHost(const agent::v1::Host& host) {
  RemoveHost(host.name());
  Host& added = hosts_[host.name()];
  added.endpoint = host.peer_endpoint();
  added.places.push_back(host.peer_endpoint());
  // Lanes may end at any of its NICs, at the same port.
  if (const absl::StatusOr<Endpoint> own = ParseEndpoint(host.peer_endpoint()); own.ok()) {
    for (const agent::v1::Nic& nic : host.nics()) {
      for (const std::string& address : nic.addresses())
        added.places.push_back(ToString(Endpoint{address, own->port}));
    }
  }
  for (const std::string& place : added.places) hosts_at_[place].insert(host.name());
  for (const auto& [name, other] : hosts_) {
    if (other.unreachable.contains(host.name())) outdated_.insert(name);
  }
  stale_ = true;
}

void UnreachablePairs::RemoveHost(const std::string& host) {
  const auto known = hosts_.find(host);
  if (known == hosts_.end()) return;
  for (const std::string& place : known->second.places) {
    const auto at = hosts_at_.find(place);
    if (at == hosts_at_.end()) continue;  // One of its NICs has the address of its endpoint.
    at->second.erase(host);
    if (at->second.empty()) hosts_at_.erase(at);
  }
  hosts_.erase(known);
  for (auto& [name, other] : hosts_) {
    if (other.suspected.erase(host) > 0 || other.unreachable.contains(host)) outdated_.insert(name);
  }
  stale_ = true;
}

void UnreachablePairs::Set(const std::string& host, const agent::v1::UnreachableHosts& report,
                           MonotonicNs now) {
  Host& reporter = hosts_.at(host);
  reporter.report = report.revision();
  reporter.suspected.clear();
  reporter.unreachable.clear();
  for (const std::string& place : report.suspected()) {
    for (const std::string& claimant : ClaimantsOf(place)) {
      if (reporter.suspected.size() == kMaxPerHost) break;
      if (claimant != host) reporter.suspected.insert(claimant);
    }
  }
  for (const agent::v1::UnreachableHost& peer : report.unreachable()) {
    if (reporter.unreachable.size() == kMaxPerHost) break;
    if (peer.host() == host || peer.host().size() > kMaxNameBytes) continue;
    // Printable: it goes to logs and terminals.
    reporter.unreachable[peer.host()] = {.cause = Printable(CutText(peer.cause(), kMaxCauseBytes)),
                                         .at = now};
  }
  outdated_.insert(host);
  stale_ = true;
}

UnreachablePairs::Changes UnreachablePairs::Update(MonotonicNs now) {
  if (!stale_) return {};
  stale_ = false;
  std::map<HostPair, UnreachablePair> next;
  for (const auto& [name, host] : hosts_) {
    for (const auto& [peer, evidence] : host.unreachable) {
      if (!hosts_.contains(peer)) continue;
      const HostPair pair = PairOf(name, peer);
      UnreachablePair& state = next[pair];
      const auto before = pairs_.find(pair);
      state.since = before != pairs_.end() ? before->second.since : now;
      state.seen_by[name] = evidence;
    }
  }
  Changes changes;
  UpdateContested(&changes);
  const auto add = [&](const HostPair& pair, std::vector<HostPair>* to) {
    to->push_back(pair);
    outdated_.insert(pair.first);
    outdated_.insert(pair.second);
  };
  for (const auto& [pair, state] : next) {
    if (!pairs_.contains(pair)) add(pair, &changes.appeared);
  }
  for (const auto& [pair, state] : pairs_) {
    if (!next.contains(pair)) add(pair, &changes.cleared);
  }
  pairs_ = std::move(next);
  if (!changes.appeared.empty() || !changes.cleared.empty()) ++revision_;
  std::erase_if(outdated_, [this](const std::string& host) { return !hosts_.contains(host); });
  changes.outdated = std::exchange(outdated_, {});
  return changes;
}

const std::set<std::string>& UnreachablePairs::ClaimantsOf(const std::string& place) const {
  static const std::set<std::string> kNone;
  const auto at = hosts_at_.find(place);
  return at != hosts_at_.end() ? at->second : kNone;
}

void UnreachablePairs::UpdateContested(Changes* changes) {
  std::set<std::string> next;
  for (const auto& [name, host] : hosts_) {
    const std::set<std::string>& claimants = ClaimantsOf(host.endpoint);
    if (claimants.size() < 2) continue;
    next.insert(name);
    if (!contested_.contains(name)) changes->contested[host.endpoint] = claimants;
  }
  std::set<std::string> changed;
  std::ranges::set_symmetric_difference(contested_, next, std::inserter(changed, changed.end()));
  contested_ = std::move(next);
  if (changed.empty()) return;
  for (const auto& entry : hosts_) {
    const bool is_listed = std::ranges::any_of(changed, [&](const std::string& other) {
      const auto& [name, host] = entry;
      return host.suspected.contains(other) || host.unreachable.contains(other) ||
             pairs_.contains(PairOf(name, other));
    });
    if (is_listed) outdated_.insert(entry.first);
  }
}

agent::v1::PeerHosts UnreachablePairs::PeersOf(const std::string& host, MonotonicNs now) const {
  const Host& own = hosts_.at(host);
  std::map<std::string, agent::v1::PeerHost> peers;
  // Null: the host is not connected, or its endpoint is contested.
  const auto add = [&](const std::string& name) -> agent::v1::PeerHost* {
    const auto found = hosts_.find(name);
    if (found == hosts_.end() || contested_.contains(name)) return nullptr;
    agent::v1::PeerHost& peer = peers[name];
    peer.set_host(name);
    peer.set_peer_endpoint(found->second.endpoint);
    return &peer;
  };
  for (const std::string& name : own.suspected) {
    if (agent::v1::PeerHost* const peer = add(name)) peer->set_check(true);
  }
  for (const auto& [name, evidence] : own.unreachable) {
    if (agent::v1::PeerHost* const peer = add(name)) peer->set_check(true);
  }
  for (const auto& [pair, state] : pairs_) {
    if (pair.first != host && pair.second != host) continue;
    agent::v1::PeerHost* const peer = add(pair.first == host ? pair.second : pair.first);
    if (peer == nullptr) continue;
    peer->set_unreachable(Describe(pair, state));
    peer->set_unreachable_for_ns(now - state.since);
  }
  agent::v1::PeerHosts message;
  message.set_revision(own.report);
  for (auto& [name, peer] : peers) *message.add_hosts() = std::move(peer);
  return message;
}

std::set<HostPair> UnreachablePairs::names() const {
  std::set<HostPair> names;
  for (const auto& [pair, state] : pairs_) names.insert(pair);
  return names;
}

std::string Describe(const HostPair& pair, const UnreachablePair& state) {
  std::vector<std::string> seen;
  for (const auto& [host, evidence] : state.seen_by) {
    const std::string& other = host == pair.first ? pair.second : pair.first;
    seen.push_back(absl::StrCat(host, " cannot connect to ", other, ": ", evidence.cause));
  }
  return absl::StrCat("hosts ", pair.first, " and ", pair.second, ": ", absl::StrJoin(seen, "; "));
}

}  // namespace mccs
