#include "controller/view/fabric.h"

#include <algorithm>
#include <utility>

#include "topology/ecmp_paths.h"

namespace mccs {
namespace {

std::vector<bool> Named(const Topology& topology, std::span<const std::string> names) {
  std::vector<bool> named(topology.links().size());
  for (const std::string& name : names) {
    if (const std::optional<LinkId> link = topology.FindLink(name)) named[link->value()] = true;
  }
  return named;
}

std::vector<double> Capacities(const Topology& topology, const std::vector<bool>& down) {
  std::vector<double> capacities = topology.ArcCapacities();
  for (size_t link = 0; link < down.size(); ++link) {
    if (down[link]) capacities[2 * link] = capacities[2 * link + 1] = 0;
  }
  return capacities;
}

// Address of this NIC of the Topology, as its host reports it; empty: the host has no such NIC. If
// the host has not registered yet, the Topology's address.
std::string AddressOf(const Topology::Nic& nic, const HostView* seen) {
  if (seen == nullptr) return nic.address;
  if (!nic.address.empty()) return HasAddress(*seen, nic.address) ? nic.address : "";
  for (const NicView& each : seen->nics) {
    if (each.name == nic.name && !each.addresses.empty()) return each.addresses.front();
  }
  return "";
}

FabricHost MakeHost(Fabric* fabric, HostId id, const HostView* seen) {
  const Topology& topology = fabric->topology();
  const Topology::Host& host = topology.host(id);
  FabricHost made = {.fabric = fabric, .id = id, .nics = {}, .own = {}, .own_address = {}};
  if (seen != nullptr) {
    made.own_address = seen->peer_address;
    made.peer_port = seen->peer_port;
  }
  if (host.nics.size() == 1) made.own = host.nics.front();
  for (const NicId nic : host.nics) {
    std::string address = AddressOf(topology.nic(nic), seen);
    if (address.empty()) continue;
    if (address == made.own_address) made.own = nic;
    if (fabric->IsUsable(topology.nic(nic).link)) made.nics.push_back({nic, std::move(address)});
  }
  return made;
}

}  // namespace

Fabric::Fabric(std::shared_ptr<const Topology> topology, const ClusterView& view)
    : topology_(std::move(topology)),
      down_(Named(*topology_, view.links_down)),
      drained_(Named(*topology_, view.links_drained)),
      components_(ComponentsOfSwitches(*topology_, down_)),
      capacity_bps_(Capacities(*topology_, down_)),
      paths_(*topology_, down_),
      ports_(*topology_, paths_, view.probed) {}

Fabrics::Fabrics(const ClusterView& view) {
  absl::flat_hash_map<std::string, const HostView*> seen;
  for (const HostView& host : view.hosts) seen[host.position.host] = &host;
  for (const auto& topology : view.topologies) {
    fabrics_.push_back(std::make_unique<Fabric>(topology, view));
    for (size_t h = 0; h < topology->hosts().size(); ++h) {
      const std::string& name = topology->hosts()[h].name;
      const auto found = seen.find(name);
      const HostView* host = found != seen.end() ? found->second : nullptr;
      if (host != nullptr && host->mismatched) continue;
      hosts_.try_emplace(name,
                         MakeHost(fabrics_.back().get(), HostId(static_cast<int32_t>(h)), host));
    }
  }
}

const FabricHost* Fabrics::Find(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() ? &found->second : nullptr;
}

}  // namespace mccs
