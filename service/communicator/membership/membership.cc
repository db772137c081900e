#include "service/communicator/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"
#include "base/utf8.h"

namespace mccs {

Secret KeyOf(const Secret& secret, const peer::Roster& roster) {
  if (roster.key().empty()) return secret;
  const std::string text = absl::StrCat("mccs key", roster.key());
  const auto hash =
      wire::KeyedHash(secret, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  Secret key;
  std::copy_n(hash.begin(), key.size(), key.begin());
  return key;
}

Endpoint Membership::EndpointOf(HostIndex host) const {
  const peer::HostInfo& info = roster.hosts(host.value());
  return {info.endpoint_host(), static_cast<uint16_t>(info.endpoint_port())};
}

std::string Membership::HostName(HostIndex host) const { return roster.hosts(host.value()).name(); }

std::string Membership::HostNames(const std::vector<HostIndex>& hosts) const {
  std::vector<std::string> names;
  for (HostIndex host : hosts) names.push_back(HostName(host));
  return absl::StrJoin(names, ", ");
}

std::vector<HostIndex> Membership::HostsWithoutRdma() const {
  std::vector<HostIndex> without;
  for (int h = 0; h < roster.hosts_size(); ++h) {
    if (roster.hosts(h).rdma_addresses().empty()) without.push_back(HostIndex(h));
  }
  return without;
}

std::vector<std::string> Membership::RdmaAddressesOf(HostIndex host) const {
  const RdmaAddresses& addresses = roster.hosts(host.value()).rdma_addresses();
  return {addresses.begin(), addresses.end()};
}

absl::Status CheckRdmaAddresses(const RdmaAddresses& addresses) {
  if (static_cast<size_t>(addresses.size()) > kMaxRdmaAddresses) {
    return absl::InvalidArgumentError(absl::StrCat(addresses.size(), " RDMA addresses, at most ",
                                                   kMaxRdmaAddresses, " are allowed"));
  }
  for (const std::string& address : addresses) {
    if (IsNumericAddress(address)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("RDMA address '", CutText(address, 64), "' is not numeric"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Membership> CheckRoster(peer::Roster roster, const RosterExpectation& expected) {
  auto reject = [](const auto&... what) {
    return absl::DataLossError(absl::StrCat("invalid roster from the rendezvous: ", what...));
  };
  if (roster.comm_id() == 0 || (!expected.any_id && CommId(roster.comm_id()) != expected.id)) {
    return reject("it is for communicator ", FormatCommId(CommId(roster.comm_id())));
  }
  if (roster.tenant() != expected.tenant) return reject("it is for another tenant");
  if (!roster.key().empty() && roster.key().size() != sizeof(Secret)) {
    return reject("its key has ", roster.key().size(), " bytes: expected ", sizeof(Secret));
  }
  if (roster.hosts_size() < 1 || roster.hosts_size() > kMaxHosts) {
    return reject("it has ", roster.hosts_size(), " hosts: expected 1 to ", kMaxHosts);
  }
  Membership members;
  std::vector<HostIndex> host_of(static_cast<size_t>(expected.ranks), HostIndex(-1));
  int ranks = 0;
  for (int h = 0; h < roster.hosts_size(); ++h) {
    const peer::HostInfo& host = roster.hosts(h);
    if (host.ranks_size() < 1 || host.ranks_size() > kMaxLocalRanks ||
        host.endpoint_port() > 65535) {
      return reject("host ", host.name(), " has ", host.ranks_size(), " ranks (expected 1 to ",
                    kMaxLocalRanks, ") and port ", host.endpoint_port());
    }
    if (absl::Status addresses = CheckRdmaAddresses(host.rdma_addresses()); !addresses.ok()) {
      return reject("host ", host.name(), " has ", addresses.message());
    }
    std::vector<Rank>& of_host = members.layout.hosts.emplace_back();
    for (const cluster::Member& info : host.ranks()) {
      const Rank rank(info.rank());
      if (rank.value() < 0 || rank.value() >= expected.ranks ||
          host_of[rank.value()].value() >= 0 || (!of_host.empty() && rank < of_host.back())) {
        return reject("rank ", rank.value(), " of ", expected.ranks,
                      " is out of range, duplicate or out of order");
      }
      host_of[rank.value()] = HostIndex(h);
      of_host.push_back(rank);
      ++ranks;
    }
  }
  if (ranks != expected.ranks) return reject("it has ", ranks, " ranks, expected ", expected.ranks);
  members.leader = host_of[0];
  members.host_of = std::move(host_of);
  members.self = members.HostOf(expected.locals.front());
  std::vector<Rank> locals = expected.locals;
  std::sort(locals.begin(), locals.end());
  if (members.layout.hosts[members.self.value()] != locals) {
    return reject("the ranks of this host differ from those that joined here");
  }
  members.roster = std::move(roster);
  const Endpoint endpoint = members.EndpointOf(members.self);
  if (members.HostName(members.self) != expected.host || endpoint != expected.endpoint) {
    return reject("it lists host ", expected.host, " at ", ToString(expected.endpoint), " as ",
                  members.HostName(members.self), " at ", ToString(endpoint));
  }
  for (const std::string& address : members.RdmaAddressesOf(members.self)) {
    if (std::ranges::find(expected.rdma_addresses, address) != expected.rdma_addresses.end())
      continue;
    return reject("it lists RDMA address ", address, " of host ", expected.host,
                  ", which has no RDMA device there");
  }
  return members;
}

agent::v1::Announce Describe(const Membership& members, CommId id, const Strategy& strategy) {
  agent::v1::Announce announce;
  announce.set_comm_id(id.value());
  announce.set_name(members.roster.name());
  announce.set_tenant(members.roster.tenant());
  ToProto(strategy, announce.mutable_strategy());
  for (const peer::HostInfo& host : members.roster.hosts()) {
    announce.add_hosts(host.name());
    for (const cluster::Member& rank : host.ranks()) {
      cluster::Member* member = announce.add_members();
      *member = rank;
      member->set_host(host.name());
      member->clear_hints();
      if (rank.rank() == 0) *announce.mutable_hints() = rank.hints();
    }
  }
  std::sort(announce.mutable_members()->begin(), announce.mutable_members()->end(),
            [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  return announce;
}

}  // namespace mccs
