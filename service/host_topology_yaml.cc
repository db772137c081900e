#include "service/host_topology_yaml.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs {
namespace {

constexpr uint64_t kGbps = 1'000'000'000;
constexpr uint64_t kMbps = 1'000'000;

// Names are quoted because they may look like numbers, and brackets denote a range of names.
std::string Quoted(const std::string& name) { return absl::StrCat("\"", name, "\""); }

std::string Rate(uint64_t bps) {
  return bps % kGbps == 0 ? absl::StrCat(bps / kGbps, "Gbit/s")
                          : absl::StrCat(bps / kMbps, "Mbit/s");
}

std::string GpuLines(const HostNames& names, const MachineParts& parts) {
  if (parts.gpus.empty()) {
    return absl::StrCat(
        "    # No NVIDIA GPU on the PCI bus; using `gpus` of the "
        "configuration.\n    gpus: ",
        names.configured_gpus, "\n");
  }
  std::string text;
  for (size_t i = 0; i < parts.gpus.size(); ++i) {
    absl::StrAppend(&text, "    # GPU ", i, ": ", parts.gpus[i].bus_id, "\n");
  }
  if (static_cast<int>(parts.gpus.size()) != names.configured_gpus) {
    absl::StrAppend(&text, "    # (`gpus` in mccsd's configuration: ", names.configured_gpus,
                    ")\n");
  }
  return absl::StrCat(text, "    gpus: ", parts.gpus.size(), "\n");
}

std::string NicLines(const MachineNic& nic, bool has_distances) {
  std::string text = absl::StrCat("      - name: ", Quoted(nic.name), "\n");
  absl::StrAppend(&text, "        switch: SWITCH    # name of the switch that it is cabled to\n");
  absl::StrAppend(&text, "        capacity: ",
                  nic.speed_bps >= kMbps
                      ? Rate(nic.speed_bps)
                      : "SPEED  # unknown to the kernel; per direction, e.g. 25Gbit/s",
                  "\n");
  if (!nic.address.empty()) absl::StrAppend(&text, "        address: ", Quoted(nic.address), "\n");
  if (has_distances) {
    absl::StrAppend(&text, "        near_gpus: [", absl::StrJoin(nic.near_gpus, ", "), "]\n");
  }
  return text;
}

// If there are physical devices, the others (bridges and the like) are internal to the machine.
std::vector<MachineNic> NicsToName(const std::vector<MachineNic>& nics) {
  std::vector<MachineNic> devices;
  std::copy_if(nics.begin(), nics.end(), std::back_inserter(devices),
               [](const MachineNic& nic) { return nic.has_device; });
  return devices.empty() ? nics : devices;
}

// A Topology has one MTU. Empty if these NICs' MTUs differ or are unknown.
std::string MtuLine(const std::vector<MachineNic>& nics) {
  const int32_t mtu = nics.front().mtu_bytes;
  const bool same = std::all_of(nics.begin(), nics.end(),
                                [&](const MachineNic& nic) { return nic.mtu_bytes == mtu; });
  if (!same || mtu == 0) return "";
  return absl::StrCat("    # The NICs have an MTU of ", mtu,
                      ". If all hosts and switches have the same, set spec.mtu: ", mtu, ".\n");
}

}  // namespace

std::string HostTopologyYaml(const HostNames& names, const MachineParts& parts) {
  std::string text =
      "# This host as hwloc and the kernel see it, for spec.hosts of a kind: Topology. Replace the "
      "words\n# in capitals, which this host cannot detect; the Topology must also define racks, "
      "switches and "
      "links.\n  - name: ";
  absl::StrAppend(&text, Quoted(names.host), "\n    rack: ");
  absl::StrAppend(&text,
                  names.rack.empty() ? "RACK    # position.rack is not set in mccsd's configuration"
                                     : Quoted(names.rack),
                  "\n", GpuLines(names, parts));
  if (parts.nics.empty()) {
    absl::StrAppend(&text,
                    "    # No network interface except loopback is up and has an address.\n");
    return absl::StrCat(text, "    nics: []\n");
  }
  if (!parts.has_distances && !parts.gpus.empty()) {
    absl::StrAppend(&text,
                    "    # near_gpus is unknown: all NICs are equally near, or a NIC is not a "
                    "PCI device.\n");
  }
  const std::vector<MachineNic> named = NicsToName(parts.nics);
  absl::StrAppend(&text, MtuLine(named), "    nics:\n");
  for (const MachineNic& nic : named) absl::StrAppend(&text, NicLines(nic, parts.has_distances));
  if (named.size() == parts.nics.size()) return text;
  for (const MachineNic& nic : parts.nics) {
    if (nic.has_device) continue;
    absl::StrAppend(&text, "      # ", nic.name, " (", nic.address,
                    ") is left out: it is not a physical device.\n");
  }
  return text;
}

}  // namespace mccs
