// GPUs and NICs of this machine and their distance from each other, from hwloc and the kernel.
// Uses no GPU driver: a GPU is a device on the PCI bus.
//
// THREAD: any. Blocks for system calls only.
#ifndef MCCS_SERVICE_MACHINE_PARTS_H_
#define MCCS_SERVICE_MACHINE_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/host_discovery.h"

namespace mccs {

struct MachineGpu {
  std::string bus_id;  // "0000:1b:00.0"
};

struct MachineNic {
  std::string name;
  std::string address;      // the first one, numeric; empty: none
  uint64_t speed_bps = 0;   // 0: unknown
  int32_t mtu_bytes = 0;    // 0: unknown
  bool has_device = false;  // the NIC, or one of its parts, is a physical device
  // GPUs that have no nearer NIC; empty: unknown, or all NICs are equally near.
  std::vector<int> near_gpus;
};

struct MachineParts {
  std::vector<MachineGpu> gpus;  // by bus id, the order of CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::vector<MachineNic> nics;  // in the order of DiscoverHost, without loopback
  bool has_distances = false;    // at least one near_gpus is known
};

struct MachineOptions {
  HostInventory inventory;     // the NICs to examine
  std::string sysfs = "/sys";  // where the parts of NICs are looked up
  std::string hwloc_xml;       // file to read instead of the machine; empty: the machine
};

// kUnavailable: hwloc cannot read the machine or the file.
absl::StatusOr<MachineParts> DiscoverMachine(const MachineOptions& options);

// The GPUs of the inventory of a daemon that works on the machine's GPUs. Pure.
std::vector<GpuInfo> InventoryGpus(const MachineParts& parts);

struct HostNames {
  std::string host;
  std::string rack;  // empty: not configured
  int configured_gpus = 0;
};

// The host's entry of a `kind: Topology` for `mccsd --print-topology`: YAML for the list
// spec.hosts. Pure. Placeholders in capitals, each with a comment, replace what a host cannot
// detect (SWITCH, RACK, SPEED); the controller rejects a Topology that contains them.
std::string HostTopologyYaml(const HostNames& names, const MachineParts& parts);

}  // namespace mccs

#endif  // MCCS_SERVICE_MACHINE_PARTS_H_
