#include "topology/host_discovery.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "topology/position.h"

namespace mccs {
namespace {

constexpr uint64_t kBitsPerMegabit = 1'000'000;

absl::StatusOr<std::string> MachineName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return absl::ErrnoToStatus(errno, "gethostname");
  return std::string(name);
}

// The numeric form of an address that other hosts can use; empty for any other.
std::string UsableAddress(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) inet_ntop(AF_INET6, &v6, text, sizeof(text));
  }
  return text;
}

// Reads one number of sysfs; 0: the driver does not know it (−1), or the file cannot be read.
int64_t ReadNumber(const std::string& sysfs, const std::string& nic, const char* name) {
  int64_t figure = 0;
  std::ifstream file(absl::StrCat(sysfs, "/class/net/", nic, "/", name));
  return file >> figure && figure > 0 ? figure : 0;
}

// Whether the reported speed is real: the NIC has a device, or is a bond, VLAN or similar, which
// has a DEVTYPE. Virtual pairs (veth) and tunnels to programs report invented speeds.
bool HasSpeed(const std::string& sysfs, const std::string& nic) {
  const std::string directory = absl::StrCat(sysfs, "/class/net/", nic);
  if (access(absl::StrCat(directory, "/device").c_str(), F_OK) == 0) return true;
  std::ifstream file(directory + "/uevent");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("DEVTYPE=")) return true;
  }
  return false;
}

uint64_t SpeedOf(const std::string& sysfs, const std::string& nic) {
  if (!HasSpeed(sysfs, nic)) return 0;
  return static_cast<uint64_t>(ReadNumber(sysfs, nic, "speed")) * kBitsPerMegabit;
}

absl::StatusOr<std::vector<NicInfo>> DiscoverNics(const std::string& sysfs) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return absl::ErrnoToStatus(errno, "cannot list network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);

  std::vector<NicInfo> nics;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const std::string address = UsableAddress(entry->ifa_addr);
    if ((entry->ifa_flags & IFF_UP) == 0 || address.empty()) continue;
    auto nic = std::find_if(nics.begin(), nics.end(),
                            [&](const NicInfo& known) { return known.name == entry->ifa_name; });
    if (nic == nics.end()) {
      nics.push_back({.name = entry->ifa_name,
                      .addresses = {},
                      .speed_bps = SpeedOf(sysfs, entry->ifa_name),
                      .mtu_bytes = static_cast<int32_t>(ReadNumber(sysfs, entry->ifa_name, "mtu")),
                      .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
      nic = nics.end() - 1;
    }
    nic->addresses.push_back(address);
  }
  for (NicInfo& nic : nics) {
    std::stable_partition(nic.addresses.begin(), nic.addresses.end(),
                          [](const std::string& a) { return a.find(':') == std::string::npos; });
  }
  std::sort(nics.begin(), nics.end(), [](const NicInfo& a, const NicInfo& b) {
    if (a.loopback != b.loopback) return b.loopback;
    return CompareNatural(a.name, b.name) < 0;
  });
  return nics;
}

}  // namespace

absl::StatusOr<HostInventory> DiscoverHost(const HostDiscoveryOptions& options) {
  HostInventory host;
  host.name = options.name;
  if (host.name.empty()) {
    MCCS_ASSIGN_OR_RETURN(host.name, MachineName());
  }
  MCCS_ASSIGN_OR_RETURN(host.nics, DiscoverNics(options.sysfs));
  for (int32_t i = 0; i < options.gpu_count; ++i) host.gpus.push_back({.index = i, .bus_id = ""});
  return host;
}

void RetainAddressesFor(const std::string& listen, HostInventory* host) {
  if (listen == "::") return;
  for (NicInfo& nic : host->nics) {
    std::erase_if(nic.addresses, [&](const std::string& address) {
      const bool ipv6 = address.find(':') != std::string::npos;
      return listen == "0.0.0.0" ? ipv6 : address != listen;
    });
  }
}

}  // namespace mccs
