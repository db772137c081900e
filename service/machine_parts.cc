#include "service/machine_parts.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace mccs {
namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kDisplay = 0x03;  // class of display controllers, 3D controllers included

// These components call drivers, which may be missing or wake sleeping devices.
constexpr const char* kDriverComponents[] = {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"};

struct FreeTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, FreeTopology>;

absl::StatusOr<TopologyHandle> Load(const std::string& xml) {
  // hwloc unloads its plugins with the last topology and leaks their memory: keep one loaded.
  static hwloc_topology_t stays = nullptr;
  static const bool kept = hwloc_topology_init(&stays) == 0;
  hwloc_topology_t raw = nullptr;
  if (!kept || hwloc_topology_init(&raw) != 0)
    return absl::UnavailableError("hwloc: cannot initialize; check the installation of libhwloc");
  TopologyHandle topology(raw);
  for (const char* component : kDriverComponents) {
    // An error means that the component is not installed.
    (void)hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (!xml.empty() && hwloc_topology_set_xml(raw, xml.c_str()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("hwloc: cannot read ", xml, ": ", std::strerror(errno)));
  }
  if (hwloc_topology_load(raw) != 0) {
    return absl::UnavailableError(
        absl::StrCat("hwloc: cannot read this machine's topology: ", std::strerror(errno),
                     "; check that /sys is mounted and readable"));
  }
  return topology;
}

std::string BusId(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& device) {
  return absl::StrFormat("%04x:%02x:%02x.%x", static_cast<unsigned>(device.domain), device.bus,
                         device.dev, device.func);
}

std::map<std::string, hwloc_obj_t> FindGpus(hwloc_topology_t topology) {
  std::map<std::string, hwloc_obj_t> gpus;
  for (hwloc_obj_t device = nullptr;
       (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    const auto& pci = device->attr->pcidev;
    if (pci.vendor_id == kNvidia && pci.class_id >> 8 == kDisplay) gpus[BusId(pci)] = device;
  }
  return gpus;
}

std::map<std::string, hwloc_obj_t> FindNics(hwloc_topology_t topology) {
  std::map<std::string, hwloc_obj_t> nics;
  for (hwloc_obj_t device = nullptr;
       (device = hwloc_get_next_osdev(topology, device)) != nullptr;) {
    const bool network = device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
    // A virtual device is attached to the machine itself.
    const bool real = device->parent != nullptr && device->parent->type == HWLOC_OBJ_PCI_DEVICE;
    if (network && real && device->name != nullptr) nics[device->name] = device;
  }
  return nics;
}

// The NICs that a bond, a bridge or a VLAN consists of.
std::vector<std::string> PartsOf(const std::string& sysfs, const std::string& nic) {
  constexpr char kLower[] = "lower_";
  std::vector<std::string> parts;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(sysfs, "/class/net/", nic), error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kLower)) parts.push_back(name.substr(std::strlen(kLower)));
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

// The path of objects from the machine down to `object`.
std::vector<hwloc_obj_t> PathTo(hwloc_obj_t object) {
  std::vector<hwloc_obj_t> path;
  for (; object != nullptr; object = object->parent) path.push_back(object);
  std::reverse(path.begin(), path.end());
  return path;
}

// The length of the common part of two objects' paths; 1: only the machine.
int Nearness(hwloc_obj_t a, hwloc_obj_t b) {
  const std::vector<hwloc_obj_t> path = PathTo(a), other = PathTo(b);
  const auto [end, unused] = std::mismatch(path.begin(), path.end(), other.begin(), other.end());
  return static_cast<int>(end - path.begin());
}

}  // namespace

absl::StatusOr<MachineParts> DiscoverMachine(const MachineOptions& options) {
  absl::StatusOr<TopologyHandle> topology = Load(options.hwloc_xml);
  if (!topology.ok()) return topology.status();
  const std::map<std::string, hwloc_obj_t> gpus = FindGpus(topology->get());
  const std::map<std::string, hwloc_obj_t> devices = FindNics(topology->get());
  MachineParts parts;
  for (const auto& [bus_id, gpu] : gpus) parts.gpus.push_back({bus_id});

  std::vector<std::vector<hwloc_obj_t>> made_of;  // by NIC
  for (const NicInfo& nic : options.inventory.nics) {
    if (nic.loopback) continue;
    std::vector<std::string> names = PartsOf(options.sysfs, nic.name);
    names.push_back(nic.name);
    std::vector<hwloc_obj_t>& objects = made_of.emplace_back();
    for (const std::string& name : names) {
      const auto device = devices.find(name);
      if (device != devices.end()) objects.push_back(device->second);
    }
    parts.nics.push_back({.name = nic.name,
                          .address = nic.addresses.empty() ? "" : nic.addresses.front(),
                          .speed_bps = nic.speed_bps,
                          .mtu_bytes = nic.mtu_bytes,
                          .has_device = !objects.empty(),
                          .near_gpus = {}});
  }

  const auto with_device = static_cast<size_t>(std::count_if(
      parts.nics.begin(), parts.nics.end(), [](const MachineNic& nic) { return nic.has_device; }));
  int index = 0;
  for (const auto& [bus_id, gpu] : gpus) {
    std::vector<size_t> nearest;
    int most = 0;
    for (size_t n = 0; n < made_of.size(); ++n) {
      int nearness = 0;
      for (hwloc_obj_t device : made_of[n]) nearness = std::max(nearness, Nearness(gpu, device));
      if (nearness == 0 || nearness < most) continue;
      if (nearness > most) nearest.clear();
      most = nearness;
      nearest.push_back(n);
    }
    if (nearest.size() < with_device) {
      for (size_t n : nearest) parts.nics[n].near_gpus.push_back(index);
      parts.has_distances = true;
    }
    ++index;
  }
  return parts;
}

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

std::vector<GpuInfo> InventoryGpus(const MachineParts& parts) {
  std::vector<GpuInfo> gpus;
  for (const MachineGpu& gpu : parts.gpus) {
    gpus.push_back({.index = static_cast<int32_t>(gpus.size()), .bus_id = gpu.bus_id});
  }
  return gpus;
}

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
