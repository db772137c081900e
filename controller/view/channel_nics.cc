#include "controller/view/channel_nics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace mccs {
namespace {

// LIFETIME: all pointers are into FabricHost::nics.
using Nics = std::vector<const LaneNic*>;

// In the order of the GPUs; all NICs of the host if none is near.
Nics NearNics(const FabricHost& host, std::span<const int> gpus) {
  const Topology& topology = host.fabric->topology();
  const std::span<const GpuId> known = topology.host(host.id).gpus;
  Nics near;
  for (const int gpu : gpus) {
    if (gpu < 0 || gpu >= static_cast<int>(known.size())) continue;
    for (const NicId id : topology.gpu(known[gpu]).near_nics) {
      const auto nic = std::find_if(host.nics.begin(), host.nics.end(),
                                    [&](const LaneNic& each) { return each.id == id; });
      if (nic == host.nics.end()) continue;
      if (std::find(near.begin(), near.end(), &*nic) == near.end()) near.push_back(&*nic);
    }
  }
  if (near.empty()) {
    for (const LaneNic& nic : host.nics) near.push_back(&nic);
  }
  return near;
}

// A host's NICs in one component: the near ones, or, without near ones, the others.
struct NicsThere {
  Nics nics;
  bool near = false;
};

struct HostNics {
  Nics near;
  std::map<int32_t, NicsThere> by_component;
};

HostNics Sort(const FabricHost& host, Nics near) {
  HostNics sorted;
  for (const LaneNic* nic : near) {
    NicsThere& there = sorted.by_component[host.fabric->ComponentOf(nic->id)];
    there.nics.push_back(nic);
    there.near = true;
  }
  for (const LaneNic& nic : host.nics) {
    NicsThere& there = sorted.by_component[host.fabric->ComponentOf(nic.id)];
    if (!there.near) there.nics.push_back(&nic);
  }
  sorted.near = std::move(near);
  return sorted;
}

// The components in which all hosts have a NIC, each with the number of hosts with a near one.
std::map<int32_t, size_t> FindCommon(std::span<const HostNics> hosts) {
  std::map<int32_t, size_t> common;
  for (const auto& [component, of_first] : hosts.front().by_component) {
    size_t near = 0;
    const bool all = std::all_of(hosts.begin(), hosts.end(), [&](const HostNics& host) {
      const auto there = host.by_component.find(component);
      if (there == host.by_component.end()) return false;
      near += there->second.near ? 1 : 0;
      return true;
    });
    if (all) common.emplace(component, near);
  }
  return common;
}

// The components of the channels in cyclic order: those of one host's near NICs. Takes the host
// with most of them, then the one whose NICs are near for most hosts.
std::vector<int32_t> TakeTurns(const Fabric& fabric, std::span<const HostNics> hosts,
                               const std::map<int32_t, size_t>& common) {
  std::vector<int32_t> turns;
  size_t near_of_turns = 0;
  for (const HostNics& host : hosts) {
    std::vector<int32_t> of_host;
    size_t near = 0;
    for (const LaneNic* nic : host.near) {
      const auto found = common.find(fabric.ComponentOf(nic->id));
      if (found == common.end()) continue;
      of_host.push_back(found->first);
      near += found->second;
    }
    if (std::pair(of_host.size(), near) <= std::pair(turns.size(), near_of_turns)) continue;
    turns = std::move(of_host);
    near_of_turns = near;
  }
  // No near NIC reaches all hosts.
  if (turns.empty() && !common.empty()) turns.push_back(common.begin()->first);
  return turns;
}

bool IsIpv6(const LaneNic& nic) { return nic.address.find(':') != std::string::npos; }

}  // namespace

ChannelNics ChooseNics(const CommunicatorView& communicator,
                       std::span<const FabricHost* const> hosts, int per_nic) {
  std::vector<HostNics> sorted;
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (hosts[h] == nullptr || hosts[h]->nics.empty()) return {};
    if (hosts[h]->fabric != hosts[0]->fabric) return {};
    const bool known = h < communicator.gpus.size();
    const std::span<const int> gpus =
        known ? std::span<const int>(communicator.gpus[h]) : std::span<const int>();
    sorted.push_back(Sort(*hosts[h], NearNics(*hosts[h], gpus)));
  }
  if (sorted.empty()) return {};
  const std::vector<int32_t> turns = TakeTurns(*hosts[0]->fabric, sorted, FindCommon(sorted));
  ChannelNics nics(std::min<size_t>(turns.size() * per_nic, kMaxChannelsOfStrategy));
  std::map<int32_t, size_t> taken;  // channels so far, by component
  for (size_t c = 0; c < nics.size(); ++c) {
    const int32_t component = turns[c % turns.size()];
    const size_t turn = taken[component]++;
    for (const HostNics& host : sorted) {
      const Nics& there = host.by_component.find(component)->second.nics;
      nics[c].push_back(*there[turn % there.size()]);
      if (IsIpv6(nics[c].back()) != IsIpv6(nics[c].front())) return {};
    }
  }
  return nics;
}

namespace {

// The local ranks whose GPUs are near the NIC.
std::vector<int> RanksNear(const FabricHost& host, NicId nic, const std::vector<int>& gpu_of_rank) {
  const Topology& topology = host.fabric->topology();
  const std::span<const GpuId> known = topology.host(host.id).gpus;
  std::vector<int> near;
  for (size_t rank = 0; rank < gpu_of_rank.size(); ++rank) {
    const int gpu = gpu_of_rank[rank];
    if (gpu < 0 || gpu >= static_cast<int>(known.size())) continue;
    const auto& nics = topology.gpu(known[static_cast<size_t>(gpu)]).near_nics;
    if (std::find(nics.begin(), nics.end(), nic) == nics.end()) continue;
    near.push_back(static_cast<int>(rank));
  }
  return near;
}

}  // namespace

std::vector<std::vector<int>> ChooseHomes(const CommunicatorView& communicator,
                                          std::span<const FabricHost* const> hosts,
                                          const ChannelNics& nics) {
  std::vector<std::vector<int>> homes(nics.size(), std::vector<int>(hosts.size()));
  std::vector<bool> usual(nics.size(), true);  // by channel: as the daemons' default
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (h >= communicator.gpu_of_rank.size() || communicator.gpu_of_rank[h].empty()) {
      return std::vector<std::vector<int>>(nics.size());
    }
    const std::vector<int>& ranks = communicator.gpu_of_rank[h];
    std::map<NicId, size_t> turns;  // channels so far
    for (size_t c = 0; c < nics.size(); ++c) {
      const int default_home = static_cast<int>(c % ranks.size());
      const std::vector<int> near = RanksNear(*hosts[h], nics[c][h].id, ranks);
      const size_t turn = turns[nics[c][h].id]++;
      homes[c][h] = near.empty() ? default_home : near[turn % near.size()];
      if (homes[c][h] != default_home) usual[c] = false;
    }
  }
  for (size_t c = 0; c < nics.size(); ++c) {
    if (usual[c]) homes[c].clear();
  }
  return homes;
}

}  // namespace mccs
