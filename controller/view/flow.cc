#include "controller/view/flow.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
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

}  // namespace mccs
