#include "service/communicator/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace mccs {

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

Membership MembershipOf(peer::Roster roster, Rank ours) {
  Membership members;
  members.roster = std::move(roster);
  for (int h = 0; h < members.roster.hosts_size(); ++h) {
    std::vector<Rank>& ranks = members.layout.hosts.emplace_back();
    for (const peer::RankInfo& info : members.roster.hosts(h).ranks()) {
      ranks.push_back(Rank(info.rank()));
      if (info.rank() == 0) members.leader = HostIndex(h);
      if (info.rank() == ours.value()) members.self = HostIndex(h);
    }
  }
  return members;
}

CommunicatorInfo Describe(const Membership& members, CommId id, const Strategy& strategy) {
  CommunicatorInfo info{.id = id,
                        .name = members.roster.name(),
                        .tenant = members.roster.tenant(),
                        .members = {},
                        .hosts = {},
                        .strategy = strategy};
  for (const peer::HostInfo& host : members.roster.hosts()) {
    info.hosts.push_back(host.name());
    for (const peer::RankInfo& rank : host.ranks()) {
      info.members.push_back({Rank(rank.rank()), host.name(), rank.gpu_bus_id(), rank.process()});
    }
  }
  std::sort(info.members.begin(), info.members.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return info;
}

}  // namespace mccs
