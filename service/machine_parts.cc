#include "service/machine_parts.h"

#include <hwloc.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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
    return absl::UnavailableError("cannot initialize hwloc");
  TopologyHandle topology(raw);
  for (const char* component : kDriverComponents) {
    // An error means that the component is not installed.
    (void)hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (!xml.empty() && hwloc_topology_set_xml(raw, xml.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("hwloc cannot read ", xml));
  }
  if (hwloc_topology_load(raw) != 0) {
    return absl::UnavailableError("hwloc cannot read this machine's topology");
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

}  // namespace mccs
