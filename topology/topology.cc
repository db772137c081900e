#include "topology/topology.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace mccs {
namespace {

// Appends a part and adds its name to the index.
template <typename Id, typename Part>
Id Append(std::vector<Part>& parts, absl::flat_hash_map<std::string, int32_t>& index,
          const std::string& key, Part part) {
  const Id id(static_cast<int32_t>(parts.size()));
  MCCS_CHECK(index.try_emplace(key, id.value()).second);
  parts.push_back(std::move(part));
  return id;
}

template <typename Id>
std::optional<Id> Find(const absl::flat_hash_map<std::string, int32_t>& index,
                       std::string_view name) {
  const auto found = index.find(absl::string_view(name.data(), name.size()));
  if (found == index.end()) return std::nullopt;
  return Id(found->second);
}

}  // namespace

PodId Topology::AddPod(const std::string& name) {
  return Append<PodId>(pods_, pod_names_, name, Pod{.name = name});
}

RackId Topology::AddRack(const std::string& name, std::optional<PodId> pod) {
  return Append<RackId>(racks_, rack_names_, name, Rack{.name = name, .pod = pod});
}

SwitchId Topology::AddSwitch(const std::string& name, std::optional<uint32_t> hash_seed) {
  MCCS_CHECK(!host_names_.contains(name));
  neighbours_.emplace_back();
  return Append<SwitchId>(switches_, switch_names_, name,
                          Switch{.name = name, .hash_seed = hash_seed, .addresses = {}});
}

void Topology::AddAddress(SwitchId at, std::string address) {
  switches_[at.value()].addresses.push_back(std::move(address));
}

HostId Topology::AddHost(const std::string& name, RackId rack, int32_t gpus) {
  MCCS_CHECK(!switch_names_.contains(name));
  const auto id = Append<HostId>(hosts_, host_names_, name,
                                 Host{.name = name, .rack = rack, .nics = {}, .gpus = {}});
  for (int32_t i = 0; i < gpus; ++i) {
    hosts_.back().gpus.push_back(GpuId(static_cast<int32_t>(gpus_.size())));
    gpus_.push_back({.host = id, .index = i, .near_nics = {}});
  }
  return id;
}

NicId Topology::AddNic(HostId host, std::string name, SwitchId attached_to, uint64_t capacity_bps,
                       std::string address) {
  MCCS_CHECK(capacity_bps > 0);
  const std::string full_name = absl::StrCat(hosts_[host.value()].name, "/", name);
  const std::string link_name = LinkName(full_name, switch_of(attached_to).name);
  const NicId id(static_cast<int32_t>(nics_.size()));
  const auto link = Append<LinkId>(
      links_, link_names_, link_name,
      Link{.name = link_name, .nic = id, .a = {}, .b = attached_to, .capacity_bps = capacity_bps});
  Append<NicId>(nics_, nic_names_, full_name,
                Nic{.name = std::move(name),
                    .host = host,
                    .attached_to = attached_to,
                    .link = link,
                    .address = std::move(address),
                    .near_gpus = {}});
  hosts_[host.value()].nics.push_back(id);
  return id;
}

LinkId Topology::AddLink(const std::string& name, SwitchId a, SwitchId b, uint64_t capacity_bps) {
  MCCS_CHECK(capacity_bps > 0 && a != b);
  const auto id = Append<LinkId>(
      links_, link_names_, name,
      Link{.name = name, .nic = std::nullopt, .a = a, .b = b, .capacity_bps = capacity_bps});
  const auto join = [&](SwitchId from, SwitchId to, ArcId arc) {
    auto& list = neighbours_[from.value()];
    const auto place =
        std::upper_bound(list.begin(), list.end(), to, [&](SwitchId added, const Neighbour& known) {
          return CompareNatural(switch_of(added).name, switch_of(known.to).name) < 0;
        });
    list.insert(place, {.arc = arc, .to = to});
  };
  join(a, b, ForwardArc(id));
  join(b, a, BackwardArc(id));
  return id;
}

void Topology::SetNear(GpuId gpu, NicId nic) {
  MCCS_CHECK(gpus_[gpu.value()].host == nics_[nic.value()].host);
  gpus_[gpu.value()].near_nics.push_back(nic);
  nics_[nic.value()].near_gpus.push_back(gpu);
}

std::optional<PodId> Topology::FindPod(std::string_view name) const {
  return Find<PodId>(pod_names_, name);
}
std::optional<RackId> Topology::FindRack(std::string_view name) const {
  return Find<RackId>(rack_names_, name);
}
std::optional<SwitchId> Topology::FindSwitch(std::string_view name) const {
  return Find<SwitchId>(switch_names_, name);
}
std::optional<HostId> Topology::FindHost(std::string_view name) const {
  return Find<HostId>(host_names_, name);
}
std::optional<LinkId> Topology::FindLink(std::string_view name) const {
  return Find<LinkId>(link_names_, name);
}
std::optional<NicId> Topology::FindNic(std::string_view name) const {
  return Find<NicId>(nic_names_, name);
}

Position Topology::PositionOf(HostId id) const {
  const Rack& rack = racks_[host(id).rack.value()];
  return {.pod = rack.pod ? pod(*rack.pod).name : "", .rack = rack.name, .host = host(id).name};
}

std::vector<double> Topology::ArcCapacities() const {
  std::vector<double> capacities;
  capacities.reserve(arc_count());
  for (const Link& link : links_)
    capacities.insert(capacities.end(), 2, static_cast<double>(link.capacity_bps));
  return capacities;
}

std::string Topology::NicName(NicId id) const {
  return absl::StrCat(host(nic(id).host).name, "/", nic(id).name);
}

std::string Topology::EndName(LinkId id, bool end_b) const {
  const Link& ends = link(id);
  if (end_b) return switch_of(ends.b).name;
  return ends.nic ? NicName(*ends.nic) : switch_of(ends.a).name;
}

std::string Topology::ArcName(ArcId arc) const {
  const LinkId id = LinkOf(arc);
  const std::string a = EndName(id, false), b = EndName(id, true);
  const std::string text = IsForward(arc) ? absl::StrCat(a, " → ", b) : absl::StrCat(b, " → ", a);
  return link(id).name == LinkName(a, b) ? text : absl::StrCat(text, " (", link(id).name, ")");
}

std::string Topology::LinkName(std::string_view a, std::string_view b) {
  return std::string(a).append("-").append(b);
}

}  // namespace mccs
