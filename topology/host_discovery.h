// What this machine is: its name, NICs and GPUs. Apart from the rest of topology/, for it reads the
// machine.
#ifndef MCCS_TOPOLOGY_HOST_DISCOVERY_H_
#define MCCS_TOPOLOGY_HOST_DISCOVERY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs {

struct NicInfo {
  std::string name;
  std::vector<std::string> addresses;  // numeric, IPv4 first; no link-local ones
  uint64_t speed_bps = 0;              // 0: the kernel does not know
  int32_t mtu_bytes = 0;               // likewise
  bool loopback = false;
};

struct GpuInfo {
  int32_t index = 0;
  std::string bus_id;  // "0000:1b:00.0"; empty where unknown
};

struct HostInventory {
  std::string name;
  std::vector<NicInfo>
      nics;  // that are up and have an address, in natural order of their names, loopback last
  std::vector<GpuInfo> gpus;
};

struct HostDiscoveryOptions {
  std::string name;  // empty: the machine's host name
  int32_t gpu_count = 0;
  std::string sysfs = "/sys";
};

// THREAD: any. Blocks for system calls only.
absl::StatusOr<HostInventory> DiscoverHost(const HostDiscoveryOptions& options);

// Leaves NICs only the addresses at which streams arrive at one who listens at `listen`: numeric;
// the wildcard of a family stands for all addresses ("::" for both families).
void KeepAddressesAt(const std::string& listen, HostInventory* host);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_HOST_DISCOVERY_H_
