#include "controller/view/flow.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

std::optional<NicId> NicAt(const FabricHost& host, const std::string& address) {
  if (address.empty()) return host.own;
  for (const LaneNic& nic : host.nics) {
    if (nic.address == address) return nic.id;
  }
  return std::nullopt;
}

// NICs of the hosts of one channel, by position.
absl::StatusOr<std::vector<NicId>> NicsOf(const CommunicatorView& communicator,
                                          const strategy::ChannelStrategy& channel,
                                          std::span<const FabricHost* const> hosts) {
  std::vector<NicId> nics(hosts.size());
  for (int i = 0; i < channel.ring_size(); ++i) {
    const int host = channel.ring(i);
    const std::string address = i < channel.addresses_size() ? channel.addresses(i) : "";
    const std::optional<NicId> nic = NicAt(*hosts[host], address);
    if (!nic) {
      return absl::NotFoundError(absl::StrCat("the NIC that host ", communicator.hosts[host],
                                              " uses is not in the Topology"));
    }
    nics[host] = *nic;
  }
  return nics;
}

// The NIC with that address, from the Topology or the host's report, or the only NIC.
std::optional<NicId> NicOfAddress(const FabricHost& host, const std::string& address) {
  const Topology& topology = host.fabric->topology();
  const std::vector<NicId>& nics = topology.host(host.id).nics;
  for (const NicId nic : nics) {
    if (topology.nic(nic).address == address) return nic;
  }
  for (const LaneNic& nic : host.nics) {
    if (nic.address == address) return nic.id;
  }
  return nics.size() == 1 || address == host.own_address ? host.own : std::nullopt;
}

}  // namespace

std::vector<const FabricHost*> HostsOf(const Fabrics& fabrics,
                                       const CommunicatorView& communicator) {
  std::vector<const FabricHost*> hosts;
  for (const std::string& name : communicator.hosts) hosts.push_back(fabrics.Find(name));
  return hosts;
}

absl::StatusOr<Fabric*> CommonFabric(const CommunicatorView& communicator,
                                     std::span<const FabricHost* const> hosts) {
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (hosts[h] == nullptr) {
      return absl::NotFoundError(absl::StrCat("no Topology has host ", communicator.hosts[h],
                                              " that matches its daemon's report"));
    }
    if (hosts[h]->fabric != hosts[0]->fabric) {
      return absl::NotFoundError(absl::StrCat("hosts ", communicator.hosts[0], " and ",
                                              communicator.hosts[h],
                                              " are in different Topologies"));
    }
  }
  return hosts[0]->fabric;
}

absl::StatusOr<std::vector<Flow>> FlowsOf(const CommunicatorView& communicator,
                                          const strategy::Strategy& strategy,
                                          std::span<const FabricHost* const> hosts) {
  MCCS_RETURN_IF_ERROR(CommonFabric(communicator, hosts).status());
  std::vector<Flow> flows;
  if (hosts.size() < 2) return flows;
  for (int c = 0; c < strategy.channels_size(); ++c) {
    const strategy::ChannelStrategy& channel = strategy.channels(c);
    MCCS_ASSIGN_OR_RETURN(const std::vector<NicId> nics, NicsOf(communicator, channel, hosts));
    for (int i = 0; i < channel.ring_size(); ++i) {
      const int from = channel.ring(i), to = channel.ring((i + 1) % channel.ring_size());
      const uint32_t port = i < channel.source_ports_size() ? channel.source_ports(i) : 0;
      flows.push_back({.channel = c,
                       .place = i,
                       .from = from,
                       .to = to,
                       .from_nic = nics[from],
                       .to_nic = nics[to],
                       .destination_port = hosts[to]->peer_port,
                       .source_port = static_cast<uint16_t>(port)});
    }
  }
  return flows;
}

std::optional<Path> PathOf(Fabric& fabric, const Flow& flow) {
  const PathSet paths = fabric.paths().Between(flow.from_nic, flow.to_nic);
  if (paths.size() == 1) return paths[PathIndex(0)];
  if (paths.empty() || flow.source_port == 0) return std::nullopt;
  const auto path = fabric.ports().PathOf(flow.Ends(), flow.source_port);
  if (!path.ok() || !path->has_value()) return std::nullopt;
  return paths[**path];
}

std::optional<std::vector<std::string>> LinksOfLane(const Fabrics& fabrics, const LaneEnds& lane) {
  const absl::StatusOr<Endpoint> local = ParseEndpoint(lane.local);
  const absl::StatusOr<Endpoint> remote = ParseEndpoint(lane.remote);
  if (!local.ok() || !remote.ok() || local->port == 0 || remote->port == 0) return std::nullopt;
  const FabricHost* const from = fabrics.Find(lane.from);
  const FabricHost* const to = fabrics.Find(lane.to);
  if (from == nullptr || to == nullptr || from == to || from->fabric != to->fabric)
    return std::nullopt;
  const std::optional<NicId> out = NicOfAddress(*from, local->host),
                             into = NicOfAddress(*to, remote->host);
  if (!out || !into) return std::nullopt;
  const std::optional<Path> path = PathOf(*from->fabric, {.from_nic = *out,
                                                          .to_nic = *into,
                                                          .destination_port = remote->port,
                                                          .source_port = local->port});
  if (!path) return std::nullopt;
  std::vector<std::string> links;
  const Topology& topology = from->fabric->topology();
  for (const ArcId arc : *path) links.push_back(topology.link(LinkOf(arc)).name);
  return links;
}

int PlaceInRing(const strategy::ChannelStrategy& channel, int from, int to) {
  for (int i = 0; i < channel.ring_size(); ++i) {
    if (channel.ring(i) == from && channel.ring((i + 1) % channel.ring_size()) == to) return i;
  }
  return -1;
}

uint16_t PortOfLane(const strategy::ChannelStrategy& channel, int from, int to) {
  const int place = PlaceInRing(channel, from, to);
  if (place < 0 || place >= channel.source_ports_size()) return 0;
  return static_cast<uint16_t>(channel.source_ports(place));
}

const std::string& AddressOfHost(const strategy::ChannelStrategy& channel, int host) {
  static const std::string& none = *new std::string;
  for (int i = 0; i < channel.ring_size() && i < channel.addresses_size(); ++i) {
    if (channel.ring(i) == host) return channel.addresses(i);
  }
  return none;
}

std::string HostName(const CommunicatorView& communicator, int position) {
  const bool known = position >= 0 && position < static_cast<int>(communicator.hosts.size());
  return known ? communicator.hosts[position] : absl::StrCat("host ", position);
}

std::string RingText(const CommunicatorView& communicator,
                     const strategy::ChannelStrategy& channel) {
  std::vector<std::string> hosts;
  for (const int host : channel.ring()) hosts.push_back(HostName(communicator, host));
  if (hosts.size() > 1) hosts.push_back(hosts[0]);
  return absl::StrJoin(hosts, " → ");
}

}  // namespace mccs
