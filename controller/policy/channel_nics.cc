#include "controller/policy/channel_nics.h"

#include <algorithm>

namespace mccs {
namespace {

std::vector<LaneNic> NearNics(const FabricHost& host, std::span<const int> gpus) {
  const Topology& topology = host.fabric->topology();
  const std::span<const GpuId> known = topology.host(host.id).gpus;
  std::vector<LaneNic> near;
  for (const int gpu : gpus) {
    if (gpu < 0 || gpu >= static_cast<int>(known.size())) continue;
    for (const NicId id : topology.gpu(known[gpu]).near_nics) {
      const auto nic = std::find_if(host.nics.begin(), host.nics.end(),
                                    [&](const LaneNic& each) { return each.id == id; });
      if (nic == host.nics.end()) continue;
      if (std::find(near.begin(), near.end(), *nic) == near.end()) near.push_back(*nic);
    }
  }
  return near.empty() ? host.nics : near;
}

bool IsIpv6(const LaneNic& nic) { return nic.address.find(':') != std::string::npos; }

}  // namespace

ChannelNics ChooseNics(const CommunicatorView& communicator,
                       std::span<const FabricHost* const> hosts, int per_nic) {
  std::vector<std::vector<LaneNic>> near;
  size_t channels = 0;
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (hosts[h] == nullptr || hosts[h]->nics.empty()) return {};
    const bool known = h < communicator.gpus.size();
    near.push_back(
        NearNics(*hosts[h], known ? std::span<const int>(communicator.gpus[h]) : std::span<int>()));
    channels = std::max(channels, near.back().size());
  }
  channels = std::min<size_t>(channels * per_nic, kMaxChannelsOfStrategy);
  ChannelNics nics(channels);
  for (size_t c = 0; c < channels; ++c) {
    for (const std::vector<LaneNic>& of_host : near) {
      nics[c].push_back(of_host[c % of_host.size()]);
      if (IsIpv6(nics[c].back()) != IsIpv6(nics[c].front())) return {};
    }
  }
  return nics;
}

}  // namespace mccs
