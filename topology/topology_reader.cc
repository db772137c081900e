#include "topology/topology_reader.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "topology/ecmp_paths.h"
#include "topology/host_reader.h"
#include "topology/named_parts.h"
#include "topology/source_port_reader.h"

namespace mccs {
namespace {

class SpecReader {
 public:
  SpecReader(YamlReader spec, std::string name)
      : spec_(std::move(spec)), topology_(std::move(name)) {}

  Topology Read() {
    ReadMtu();
    ReadPods();
    ReadRacks();
    ReadSwitches();
    ReadHosts();
    ReadLinks();
    if (!spec_.Rejected()) CheckConnected();  // Rules refer to a connected topology.
    topology_.SetSourcePorts(ReadSourcePorts(spec_, topology_));
    if (!spec_.Rejected()) CheckHashSeeds();
    return std::move(topology_);
  }

 private:
  void ReadMtu() {
    int32_t bytes = Topology::kDefaultMtuBytes;
    spec_.Field("mtu", &bytes);
    if (bytes < Topology::kMinMtuBytes || bytes > Topology::kMaxMtuBytes) {
      spec_.Reject("mtu", absl::StrCat("'mtu' is ", bytes, ": expected ", Topology::kMinMtuBytes,
                                       " to ", Topology::kMaxMtuBytes, " bytes"));
    } else {
      topology_.SetMtu(bytes);
    }
  }

  void ReadPods() {
    std::vector<std::string> names;
    spec_.Field("pods", &names);
    std::set<std::string> seen;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!IsPartName(names[i])) {
        spec_.RejectItem("pods", i, absl::StrCat("invalid name '", names[i], "': ", kPartNameRule));
      } else if (!seen.insert(names[i]).second) {
        spec_.RejectItem("pods", i, absl::StrCat("pod '", names[i], "' is a duplicate; remove it"));
      } else {
        topology_.AddPod(names[i]);
      }
    }
  }

  void ReadRacks() {
    UniqueNames unique("rack names must be unique");
    for (YamlReader& entry : spec_.Children("racks", Need::kRequired)) {
      const std::vector<std::string> names = ReadNames(entry, "name");
      std::string pod_name;
      entry.Field("pod", &pod_name);
      const std::optional<PodId> pod = topology_.FindPod(pod_name);
      if (entry.Has("pod") && !pod)
        entry.Reject("pod", UnknownName("pod", pod_name, topology_.pods(), "add it to pods"));
      for (const std::string& name : names) {
        if (unique.Add(entry, "name", name)) topology_.AddRack(name, pod);
      }
    }
  }

  void ReadSwitches() {
    for (YamlReader& entry : spec_.Children("switches", Need::kRequired)) {
      const std::vector<std::string> names = ReadNames(entry, "name");
      std::optional<uint32_t> seed;
      if (entry.Has("hash_seed")) entry.Field("hash_seed", &seed.emplace());
      if (seed == 0u)
        entry.Reject("hash_seed", "seed 0 makes the switch choose a random seed; set another one");
      if (topology_.switches().size() + names.size() > kMaxTopologySwitches)
        return entry.Reject("name", absl::StrCat("more than ", kMaxTopologySwitches, " switches"));
      const size_t first = topology_.switches().size();
      for (const std::string& name : names) {
        if (!parts_.Add(entry, "name", name)) continue;
        topology_.AddSwitch(name, seed);
        switch_entries_.push_back(entry);
      }
      ReadSwitchAddresses(entry, first, names.size());
    }
  }

  // Reads addresses of the `count` switches from `first` on.
  void ReadSwitchAddresses(YamlReader& entry, size_t first, size_t count) {
    std::vector<std::string> patterns;
    entry.Field("addresses", &patterns);
    if (topology_.switches().size() != first + count) return;  // A name was invalid.
    if (patterns.size() > kMaxAddressesOfSwitch) {
      return entry.Reject("addresses",
                          absl::StrCat("'addresses' has ", patterns.size(),
                                       " addresses: expected at most ", kMaxAddressesOfSwitch));
    }
    for (const std::string& pattern : patterns) {
      const std::vector<std::string> addresses =
          ExpandAddresses(entry, "addresses", pattern, count, "switches", addresses_);
      for (size_t i = 0; i < addresses.size(); ++i)
        topology_.AddAddress(SwitchId(static_cast<int32_t>(first + i)), addresses[i]);
    }
  }

  void ReadHosts() {
    HostReader reader(topology_, parts_, addresses_);
    std::vector<YamlReader> entries = spec_.Children("hosts", Need::kRequired);
    if (entries.empty() && !spec_.Rejected())
      spec_.Reject("hosts", "'hosts' is empty; give at least one host");
    for (YamlReader& entry : entries) {
      reader.Read(entry);
      host_entries_.resize(topology_.hosts().size(), entry);
    }
  }

  void ReadLinks() {
    for (YamlReader& entry : spec_.Children("links")) {
      const auto [left, right] = ReadEnds(entry);
      uint64_t capacity_bps = 0;
      entry.BitRate("capacity", &capacity_bps, Need::kRequired);
      const std::vector<std::string> names = ReadNames(entry, "name", Need::kOptional);
      const size_t count = left.size() * right.size();
      if (topology_.links().size() + count > kMaxTopologyLinks)
        return entry.Reject("ends", absl::StrCat("more than ", kMaxTopologyLinks, " links"));
      if (!names.empty() && names.size() != count) {
        entry.Reject("name", absl::StrCat(names.size(), " names for ", count,
                                          " links; give a name for each, or none"));
      } else if (capacity_bps > 0) {
        AddLinks(entry, left, right, names, capacity_bps);
      }
    }
  }

  std::pair<std::vector<SwitchId>, std::vector<SwitchId>> ReadEnds(YamlReader& entry) {
    std::vector<std::string> patterns;
    entry.RejectFormerKey("between", "ends");
    entry.Field("ends", &patterns, Need::kRequired);
    if (!entry.Has("ends")) return {};
    if (patterns.size() != 2) {
      entry.Reject("ends", "'ends' needs two ends, such as [leaf0, spine0]");
      return {};
    }
    std::vector<SwitchId> ends[2];
    for (size_t i = 0; i < 2; ++i) {
      for (const std::string& name : ExpandEnd(entry, i, patterns[i])) {
        if (const std::optional<SwitchId> found = topology_.FindSwitch(name)) {
          ends[i].push_back(*found);
        } else {
          entry.RejectItem("ends", i, NoSuchEnd(name));
          break;
        }
      }
    }
    return {std::move(ends[0]), std::move(ends[1])};
  }

  static std::vector<std::string> ExpandEnd(YamlReader& entry, size_t i,
                                            const std::string& pattern) {
    // NICs cannot be ends of links here; the '/' identifies them.
    if (pattern.find('/') != std::string::npos) {
      entry.RejectItem("ends", i, kLinksOfNics);
      return {};
    }
    return ExpandNamesOf(entry, "ends", pattern);
  }

  std::string NoSuchEnd(const std::string& name) const {
    if (topology_.FindHost(name)) return absl::StrCat("'", name, "' is a host; ", kLinksOfNics);
    return UnknownName("switch", name, topology_.switches(), "add it to switches");
  }

  void AddLinks(YamlReader& entry, const std::vector<SwitchId>& left,
                const std::vector<SwitchId>& right, const std::vector<std::string>& names,
                uint64_t capacity_bps) {
    size_t n = 0;
    for (const SwitchId a : left) {
      for (const SwitchId b : right) {
        const std::string a_name = topology_.switch_of(a).name,
                          b_name = topology_.switch_of(b).name;
        if (a == b) {
          return entry.Reject("ends", absl::StrCat("'ends' links ", a_name, " to itself; remove ",
                                                   a_name, " from one end"));
        }
        const std::string name = names.empty() ? Topology::LinkName(a_name, b_name) : names[n++];
        const auto twin = parts_.LineOf(Topology::LinkName(b_name, a_name));
        const auto same = parts_.LineOf(name);
        if (names.empty() && (twin || same)) {
          return entry.Reject(
              "ends", absl::StrCat(a_name, " and ", b_name, " already have a link, on line ",
                                   same ? *same : *twin, "; give the second link a `name`"));
        }
        // Default names are reported at their ends.
        if (!parts_.Add(entry, names.empty() ? "ends" : "name", name)) return;
        topology_.AddLink(name, a, b, capacity_bps);
      }
    }
  }

  void CheckConnected() {
    std::vector<bool> linked(topology_.switches().size());
    for (const auto& nic : topology_.nics()) linked[nic.attached_to.value()] = true;
    for (size_t i = 0; i < linked.size(); ++i) {
      const SwitchId id(static_cast<int32_t>(i));
      if (linked[i] || !topology_.NeighboursOf(id).empty()) continue;
      switch_entries_[i].Reject("name",
                                absl::StrCat("switch ", topology_.switch_of(id).name,
                                             " has no links; add a link to it, or remove it"));
    }
    for (const Unreachable& apart : FindUnreachable(topology_)) {
      host_entries_[apart.host.value()].Reject(
          "name", absl::StrCat("host ", topology_.host(apart.host).name,
                               " cannot be reached from host ", topology_.host(apart.from).name,
                               ": no links connect their switches; add some to links"));
    }
  }

  void CheckHashSeeds() {
    if (topology_.source_ports().kind == SourcePortMapping::Kind::kHash) return;
    for (size_t i = 0; i < switch_entries_.size(); ++i) {
      if (!topology_.switches()[i].hash_seed) continue;
      return switch_entries_[i].Reject(
          "hash_seed",
          "hash_seed requires `mapping: hash` in source_ports; remove it or change the mapping");
    }
  }

  static constexpr char kLinksOfNics[] =
      "a NIC's link is defined by the NIC's `switch` and `capacity`; remove it from links";

  YamlReader spec_;
  Topology topology_;
  UniqueNames parts_{"names of switches, hosts and links must be unique"};
  UniqueNames addresses_{"addresses of NICs and switches must be unique"};
  std::vector<YamlReader> switch_entries_;  // by switch: its entry
  std::vector<YamlReader> host_entries_;    // by host
};

}  // namespace

Topology ReadTopologySpec(YamlReader spec, std::string name) {
  return SpecReader(std::move(spec), std::move(name)).Read();
}

absl::StatusOr<Topology> ParseTopology(const std::string& text, const std::string& file_name) {
  MCCS_ASSIGN_OR_RETURN(YamlReader document, YamlReader::Parse(text, file_name));
  std::string version, kind, name;
  document.Field("apiVersion", &version, Need::kRequired);
  if (document.Has("apiVersion") && version != kTopologyApiVersion) {
    document.Reject("apiVersion", absl::StrCat("unsupported version '", version, "': expected ",
                                               kTopologyApiVersion));
  }
  document.Field("kind", &kind, Need::kRequired);
  if (document.Has("kind") && kind != "Topology")
    document.Reject("kind", absl::StrCat("unsupported kind '", kind, "': expected Topology"));
  YamlReader metadata = document.Child("metadata", Need::kRequired);
  if (document.Has("metadata")) {
    metadata.Field("name", &name, Need::kRequired);
    if (metadata.Has("name") && !IsPartName(name))
      metadata.Reject("name", absl::StrCat("invalid name '", name, "': ", kPartNameRule));
  }
  YamlReader spec = document.Child("spec", Need::kRequired);
  if (!document.Has("spec")) return document.Finish();
  Topology topology = ReadTopologySpec(spec, name);
  MCCS_RETURN_IF_ERROR(document.Finish());
  return topology;
}

}  // namespace mccs
