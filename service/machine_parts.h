// GPUs and NICs of this machine and which are near each other, as hwloc and the kernel see them.
// No driver is asked: a GPU is a device on the PCI bus.
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
  std::string address;      // numeric, the first; empty: none
  uint64_t speed_bps = 0;   // 0: the kernel does not say
  int32_t mtu_bytes = 0;    // likewise
  bool has_device = false;  // it, or what it is made of, is a device of the machine
  // GPUs that no other NIC is nearer to; empty: nothing is known, or all NICs are equally near.
  std::vector<int> near_gpus;
};

struct MachineParts {
  std::vector<MachineGpu>
      gpus;  // by bus id, which is how CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::vector<MachineNic> nics;  // as DiscoverHost orders them, without loopback
  bool tells_nearness = false;   // some near_gpus is known
};

struct MachineOptions {
  HostInventory inventory;     // whose NICs are looked at
  std::string sysfs = "/sys";  // for what NICs are made of
  std::string hwloc_xml;       // a file that stands for the machine; empty: the machine
};

// kUnavailable: hwloc cannot look at the machine, or at the file.
absl::StatusOr<MachineParts> LookAtMachine(const MachineOptions& options);

}  // namespace mccs

#endif  // MCCS_SERVICE_MACHINE_PARTS_H_
