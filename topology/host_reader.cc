#include "topology/host_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "topology/topology_reader.h"

namespace mccs {

void HostReader::Read(YamlReader& entry) {
  ++entry_;
  const std::vector<std::string> names = ReadNames(entry, "name");
  std::string rack_name;
  entry.Field("rack", &rack_name, Need::kRequired);
  const std::optional<RackId> rack = topology_.FindRack(rack_name);
  if (entry.Has("rack") && !rack)
    entry.Reject("rack", UnknownName("rack", rack_name, topology_.racks(), "add it to racks"));
  int32_t gpus = 0;
  entry.Field("gpus", &gpus, Need::kRequired);
  if (gpus < 0 || gpus > kMaxGpusOfHost)
    entry.Reject("gpus", absl::StrCat("'gpus' is ", gpus, ": expected 0 to ", kMaxGpusOfHost));
  const std::vector<NicEntry> nics = ReadNics(entry, gpus, names.size());
  if (topology_.hosts().size() + names.size() > kMaxTopologyHosts)
    return entry.Reject("name", absl::StrCat("more than ", kMaxTopologyHosts, " hosts"));
  bool unique = true;
  for (const std::string& name : names) unique = nodes_.Add(entry, "name", name) && unique;
  if (entry.Rejected() || !unique) return;
  for (size_t n = 0; n < names.size(); ++n) Add(names[n], n, *rack, gpus, nics);
}

std::vector<HostReader::NicEntry> HostReader::ReadNics(YamlReader& host, int32_t gpus,
                                                       size_t hosts) {
  std::vector<YamlReader> entries = host.Children("nics", Need::kRequired);
  UniqueNames unique("NIC names must be unique on a host");
  // Both parts may contain '-': eth0 at p1-leaf0, and eth0-p1 at leaf0. Links of other hosts and
  // between switches cannot collide: only this host's links start with "HOST/".
  UniqueNames links("the link names NIC-SWITCH must be unique on a host; rename one of the NICs");
  std::vector<NicEntry> nics;
  size_t count = 0;
  for (YamlReader& entry : entries) {
    const NicEntry& nic = nics.emplace_back(ReadNic(entry, gpus, hosts));
    for (size_t i = 0; i < nic.names.size(); ++i) {
      if (!unique.Add(entry, "name", nic.names[i]) || i >= nic.switches.size()) continue;
      const std::string& at = topology_.switch_of(nic.switches[i]).name;
      links.Add(entry, "name", Topology::LinkName(nic.names[i], at));
    }
    count += nic.names.size();
  }
  if (entries.empty() && !host.Rejected())
    host.Reject("nics", "'nics' is empty; give at least one NIC, with its switch and capacity");
  if (count > kMaxNicsOfHost)
    host.Reject("nics",
                absl::StrCat("'nics' has ", count, " NICs: expected at most ", kMaxNicsOfHost));
  const bool is_given = std::any_of(nics.begin(), nics.end(),
                                    [](const NicEntry& nic) { return !nic.near_gpus.empty(); });
  for (int32_t gpu = 0; is_given && gpu < gpus; ++gpu) {
    if (std::any_of(nics.begin(), nics.end(), [&](const NicEntry& nic) {
          return std::find(nic.near_gpus.begin(), nic.near_gpus.end(), gpu) != nic.near_gpus.end();
        }))
      continue;
    host.Reject(
        "nics",
        absl::StrCat("GPU ", gpu,
                     " is near no NIC; add it to near_gpus of one, or remove near_gpus from all"));
  }
  return nics;
}

HostReader::NicEntry HostReader::ReadNic(YamlReader& entry, int32_t gpus, size_t hosts) {
  NicEntry nic;
  nic.names = ReadNames(entry, "name");
  ReadSwitches(entry, nic);
  entry.BitRate("capacity", &nic.capacity_bps, Need::kRequired);
  ReadNearGpus(entry, gpus, nic);
  ReadAddresses(entry, hosts, nic);
  return nic;
}

void HostReader::ReadSwitches(YamlReader& entry, NicEntry& nic) {
  const std::vector<std::string> names = ReadNames(entry, "switch");
  for (const std::string& name : names) {
    const std::optional<SwitchId> found = topology_.FindSwitch(name);
    if (!found) {
      return entry.Reject("switch",
                          UnknownName("switch", name, topology_.switches(), "add it to switches"));
    }
    nic.switches.push_back(*found);
  }
  if (names.empty() || nic.names.empty()) return;
  if (names.size() == 1) {
    nic.switches.resize(nic.names.size(), nic.switches.front());
  } else if (names.size() != nic.names.size()) {
    entry.Reject("switch", absl::StrCat(names.size(), " switches for ", nic.names.size(),
                                        " NICs; give one for all, or one for each"));
  }
}

void HostReader::ReadNearGpus(YamlReader& entry, int32_t gpus, NicEntry& nic) {
  std::vector<std::string> texts;
  entry.Field("near_gpus", &texts);
  for (size_t i = 0; i < texts.size(); ++i) {
    int32_t gpu = 0;
    if (!absl::SimpleAtoi(texts[i], &gpu) || gpu < 0 || gpu >= gpus) {
      entry.RejectItem(
          "near_gpus", i,
          absl::StrCat("unknown GPU ", texts[i], "; the host has ", gpus, ", numbered from 0"));
    } else if (std::find(nic.near_gpus.begin(), nic.near_gpus.end(), gpu) != nic.near_gpus.end()) {
      entry.RejectItem("near_gpus", i, absl::StrCat("GPU ", gpu, " is a duplicate; remove it"));
    } else {
      nic.near_gpus.push_back(gpu);
    }
  }
}

void HostReader::ReadAddresses(YamlReader& entry, size_t hosts, NicEntry& nic) {
  std::string pattern;
  entry.Field("address", &pattern);
  if (!entry.Has("address") || hosts == 0 || nic.names.empty()) return;
  nic.addresses = ExpandAddresses(entry, "address", pattern, hosts * nic.names.size(),
                                  "NICs; list all NICs of the first host first", addresses_);
}

void HostReader::Add(const std::string& name, size_t n, RackId rack, int32_t gpus,
                     const std::vector<NicEntry>& nics) {
  const HostId host = topology_.AddHost(name, rack, gpus);
  topology_.SetEntry(host, entry_);
  bool is_given = false;
  for (size_t e = 0; e < nics.size(); ++e) {
    const NicEntry& nic = nics[e];
    for (size_t i = 0; i < nic.names.size(); ++i) {
      const NicId id =
          topology_.AddNic(host, nic.names[i], nic.switches[i], nic.capacity_bps,
                           nic.addresses.empty() ? "" : nic.addresses[n * nic.names.size() + i]);
      topology_.SetEntry(id, static_cast<int32_t>(e));
      for (const int32_t gpu : nic.near_gpus) {
        topology_.SetNear(topology_.host(host).gpus[gpu], id);
        is_given = true;
      }
    }
  }
  if (!is_given) SpreadEvenly(host);
}

// Both are spread over the same length in equal pieces; overlapping pieces are near.
void HostReader::SpreadEvenly(HostId id) {
  const std::vector<GpuId> gpus = topology_.host(id).gpus;
  const std::vector<NicId> nics = topology_.host(id).nics;
  for (size_t g = 0; g < gpus.size(); ++g) {
    for (size_t n = 0; n < nics.size(); ++n) {
      if (g * nics.size() < (n + 1) * gpus.size() && n * gpus.size() < (g + 1) * nics.size())
        topology_.SetNear(gpus[g], nics[n]);
    }
  }
}

}  // namespace mccs
