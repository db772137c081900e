#include "controller/state/unreachable_pairs.h"

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
  for (const std::string& place : added.places) host_at_.emplace(place, host.name());
  for (const auto& [name, other] : hosts_) {
    if (other.unreachable.contains(host.name())) outdated_.insert(name);
  }
  stale_ = true;
}

void UnreachablePairs::RemoveHost(const std::string& host) {
  const auto known = hosts_.find(host);
  if (known == hosts_.end()) return;
  for (const std::string& place : known->second.places) {
    if (const auto at = host_at_.find(place); at != host_at_.end() && at->second == host)
      host_at_.erase(at);
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
    if (reporter.suspected.size() == kMaxPerHost) break;
    const auto at = host_at_.find(place);
    if (at != host_at_.end() && at->second != host) reporter.suspected.insert(at->second);
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

agent::v1::PeerHosts UnreachablePairs::PeersOf(const std::string& host, MonotonicNs now) const {
  const Host& own = hosts_.at(host);
  std::map<std::string, agent::v1::PeerHost> peers;
  const auto add = [&](const std::string& name) -> agent::v1::PeerHost& {
    agent::v1::PeerHost& peer = peers[name];
    peer.set_host(name);
    peer.set_peer_endpoint(hosts_.at(name).endpoint);
    return peer;
  };
  for (const std::string& name : own.suspected) add(name).set_check(true);
  for (const auto& [name, evidence] : own.unreachable) {
    if (hosts_.contains(name)) add(name).set_check(true);
  }
  for (const auto& [pair, state] : pairs_) {
    if (pair.first != host && pair.second != host) continue;
    const std::string& other = pair.first == host ? pair.second : pair.first;
    if (!hosts_.contains(other)) continue;
    agent::v1::PeerHost& peer = add(other);
    peer.set_unreachable(Describe(pair, state));
    peer.set_unreachable_for_ns(now - state.since);
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
