#include "lab/fabric_plan.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "lab/lab_state.h"
#include "topology/topology_reader.h"

namespace mccs::lab {
namespace {

// NIC j of host i has address 10.0.(i+1).(j+1); overflows carry into the next byte.
constexpr uint32_t kNicAddresses = 10u << 24;
constexpr uint32_t kSwitchAddresses = kNicAddresses | (255u << 16);
constexpr uint32_t kManagementAddresses = (172u << 24) | (31u << 16);
constexpr uint32_t kNetworkMask = 0xffff0000;

// Names of a node's devices that are not links, and names reserved by the kernel.
const std::array<std::string, 4> kTakenDevices = {"lo", kManagementDevice, "all", "default"};

std::string AddressText(uint32_t address) {
  return absl::StrCat(address >> 24, ".", (address >> 16) & 255, ".", (address >> 8) & 255, ".",
                      address & 255);
}

std::optional<uint32_t> ParseAddress(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

bool IsDeviceName(std::string_view name) {
  const bool taken =
      std::find(kTakenDevices.begin(), kTakenDevices.end(), name) != kTakenDevices.end();
  return !taken && !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
         name.find_first_of("/: \t\n\"'\\") == std::string_view::npos;
}

class Planner {
 public:
  explicit Planner(Topology topology)
      : plan_{.topology = std::move(topology), .nodes = {}, .cables = {}, .nic_addresses = {}} {}

  absl::StatusOr<FabricPlan> Plan() && {
    CheckSize();
    AddNicAddresses();
    AddNodes();
    AddCables();
    if (faults_.empty()) return std::move(plan_);
    return absl::InvalidArgumentError(
        absl::StrCat("topology '", plan_.topology.name(), "': ", absl::StrJoin(faults_, "\n")));
  }

 private:
  const Topology& topology() const { return plan_.topology; }

  void CheckSize() {
    if (topology().hosts().size() > static_cast<size_t>(kMaxHosts)) {
      faults_.push_back(
          absl::StrCat(topology().hosts().size(), " hosts; a lab can have at most ", kMaxHosts));
    }
    if (topology().switches().size() > kMaxFabricSwitches) {
      faults_.push_back(absl::StrCat(topology().switches().size(),
                                     " switches; a lab can have at most ", kMaxFabricSwitches));
    }
  }

  void AddNicAddresses() {
    for (const Topology::Host& host : topology().hosts()) {
      for (size_t j = 0; j < host.nics.size(); ++j) {
        const Topology::Nic& nic = topology().nic(host.nics[j]);
        const std::string name = topology().NicName(host.nics[j]);
        const auto generated = static_cast<uint32_t>(
            kNicAddresses + (static_cast<uint32_t>(nic.host.value()) + 1) * 256 + j + 1);
        const std::optional<uint32_t> address =
            nic.address.empty() ? generated : ParseAddress(nic.address);
        if (plan_.nic_addresses.size() <= static_cast<size_t>(host.nics[j].value()))
          plan_.nic_addresses.resize(host.nics[j].value() + 1);
        if (!address) {
          faults_.push_back(absl::StrCat(name, ": address ", nic.address,
                                         " is not IPv4; a lab supports IPv4 only"));
          continue;
        }
        const uint32_t network = *address & kNetworkMask;
        if (network == kSwitchAddresses || network == kManagementAddresses) {
          faults_.push_back(absl::StrCat(name, ": address ", nic.address, " is in ",
                                         AddressText(network), "/16, which the lab reserves"));
        }
        const auto [owner, is_new] = owners_.try_emplace(*address, name);
        if (!is_new) {
          faults_.push_back(absl::StrCat(name, " and ", owner->second, " have the same address ",
                                         AddressText(*address)));
        }
        plan_.nic_addresses[host.nics[j].value()] = AddressText(*address);
      }
    }
  }

  void AddNodes() {
    plan_.nodes.push_back({.kind = FabricNode::Kind::kManagement,
                           .name = kControllerName,
                           .address = AddressText(kManagementAddresses + 1)});
    for (const Topology::Switch& at : topology().switches())
      AddNode(FabricNode::Kind::kSwitch, at.name, SwitchAddress(at));
    for (const Topology::Host& host : topology().hosts()) {
      AddNode(FabricNode::Kind::kHost, host.name, plan_.nic_addresses[host.nics.front().value()]);
    }
  }

  // The switch's first address in the file, or a generated one.
  std::string SwitchAddress(const Topology::Switch& at) {
    const uint32_t generated = kSwitchAddresses + static_cast<uint32_t>(plan_.nodes.size());
    const std::optional<uint32_t> address =
        at.addresses.empty() ? generated : ParseAddress(at.addresses.front());
    if (!address) {
      faults_.push_back(absl::StrCat(at.name, ": address ", at.addresses.front(),
                                     " is not IPv4; a lab supports IPv4 only"));
      return "";
    }
    if ((*address & kNetworkMask) == kManagementAddresses) {
      faults_.push_back(absl::StrCat(at.name, ": address ", AddressText(*address), " is in ",
                                     AddressText(kManagementAddresses),
                                     "/16, which the lab reserves"));
    }
    const auto [owner, is_new] = owners_.try_emplace(*address, at.name);
    if (!is_new) {
      faults_.push_back(absl::StrCat(at.name, " and ", owner->second, " have the same address ",
                                     AddressText(*address)));
    }
    return AddressText(*address);
  }

  void AddNode(FabricNode::Kind kind, const std::string& name, std::string address) {
    if (name == kControllerName) {
      faults_.push_back(absl::StrCat("'", name, "' is reserved for the controller's node"));
    }
    if (name.size() > HOST_NAME_MAX) {
      faults_.push_back(absl::StrCat("'", name, "' is too long for a host name: ", name.size(),
                                     " characters, at most ", HOST_NAME_MAX));
    }
    plan_.nodes.push_back({.kind = kind, .name = name, .address = std::move(address)});
  }

  void AddCables() {
    std::vector<int> ports(topology().switches().size(), 0);
    const auto port_of = [&](SwitchId at) {
      return CableEnd{.node = plan_.NodeOf(at),
                      .device = absl::StrCat("p", ports[at.value()]++),
                      .name = topology().switch_of(at).name};
    };
    for (const Topology::Link& link : topology().links()) {
      CableEnd a = link.nic ? NicEnd(*link.nic) : port_of(link.a);
      plan_.cables.push_back({.name = link.name,
                              .a = std::move(a),
                              .b = port_of(link.b),
                              .rate_bps = link.capacity_bps});
    }
  }

  CableEnd NicEnd(NicId id) {
    const Topology::Nic& nic = topology().nic(id);
    if (!IsDeviceName(nic.name)) {
      faults_.push_back(absl::StrCat(topology().NicName(id), ": '", nic.name,
                                     "' is not a valid device name in a lab: expected at most ",
                                     IFNAMSIZ - 1, " characters, and none of ",
                                     absl::StrJoin(kTakenDevices, ", ")));
    }
    return {.node = plan_.NodeOf(nic.host), .device = nic.name, .name = topology().NicName(id)};
  }

  FabricPlan plan_;
  absl::flat_hash_map<uint32_t, std::string> owners_;  // by address
  std::vector<std::string> faults_;
};

}  // namespace

absl::StatusOr<FabricPlan> PlanFabric(Topology topology) {
  return Planner(std::move(topology)).Plan();
}

std::string ManagementAddressOf(HostId host) {
  // The first address is the controller's.
  return AddressText(kManagementAddresses + 2 + static_cast<uint32_t>(host.value()));
}

std::string HostsFile(const FabricPlan& plan) {
  std::string lines = "127.0.0.1 localhost\n";
  for (const FabricNode& node : plan.nodes) {
    absl::StrAppend(&lines, node.address, " ", node.name, "\n");
  }
  return lines;
}

namespace {

LabHost HostOf(const Topology& topology, HostId id, std::string address, uint16_t port) {
  const Position position = topology.PositionOf(id);
  return {.name = position.host,
          .address = std::move(address),
          .port = port,
          .gpus = static_cast<int32_t>(topology.host(id).gpus.size()),
          .pod = position.pod,
          .rack = position.rack,
          .listens_everywhere = false};
}

}  // namespace

absl::StatusOr<TopologyFile> ReadTopologyFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  MCCS_ASSIGN_OR_RETURN(Topology topology, ParseTopology(text.str(), path));
  return TopologyFile{text.str(), std::move(topology)};
}

std::vector<LabHost> PlainHostsOf(const Topology& topology) {
  std::vector<LabHost> hosts;
  for (int32_t i = 0; i < static_cast<int32_t>(topology.hosts().size()); ++i) {
    hosts.push_back(HostOf(topology, HostId(i), PlainAddress(i), 0));
  }
  return hosts;
}

std::vector<LabHost> FabricHostsOf(const FabricPlan& plan) {
  std::vector<LabHost> hosts;
  for (int32_t i = 0; i < static_cast<int32_t>(plan.topology.hosts().size()); ++i) {
    hosts.push_back(
        HostOf(plan.topology, HostId(i), plan.node(plan.NodeOf(HostId(i))).address, kHostPort));
    hosts.back().listens_everywhere = plan.topology.host(HostId(i)).nics.size() > 1;
  }
  return hosts;
}

}  // namespace mccs::lab
