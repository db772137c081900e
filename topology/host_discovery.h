// Reads name, NICs and GPUs of this machine. The only part of topology/ that is not pure.
#ifndef MCCS_TOPOLOGY_HOST_DISCOVERY_H_
#define MCCS_TOPOLOGY_HOST_DISCOVERY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs {

struct NicInfo {
  std::string name;
  std::vector<std::string> addresses;  // numeric, IPv4 first; without link-local ones
  uint64_t speed_bps = 0;              // 0: unknown to the kernel
  int32_t mtu_bytes = 0;               // 0: unknown to the kernel
  bool loopback = false;
};

struct GpuInfo {
  int32_t index = 0;
  std::string bus_id;  // "0000:1b:00.0"; empty: unknown
};

struct HostInventory {
  std::string name;
  // NICs that are up and have an address, in natural order of their names, loopback last.
  std::vector<NicInfo> nics;
  std::vector<GpuInfo> gpus;
};

struct HostDiscoveryOptions {
  std::string name;  // empty: the machine's host name
  int32_t gpu_count = 0;
  std::string sysfs = "/sys";
};

// THREAD: any. Blocks only for system calls.
absl::StatusOr<HostInventory> DiscoverHost(const HostDiscoveryOptions& options);

// Removes the addresses of NICs that a listener at `listen` does not serve. `listen` is numeric; a
// wildcard serves all addresses of its family ("::": of both families).
void RetainAddressesFor(const std::string& listen, HostInventory* host);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_HOST_DISCOVERY_H_
