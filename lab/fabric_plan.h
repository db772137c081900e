// Maps a topology to one machine: nodes (lab/node.h), cables between them, and addresses.
//
//   ┌ h1 ──────┐        ┌ leaf0 ───┐       ┌ spine0 ──┐
//   │     nic0 ╪════════╪ p0    p2 ╪═══════╪ p0       │   one cable (a veth pair) for each link of
//   │     nic1 ╪════════╪ p1    p3 ╪══     └──────────┘   the topology
//   │     mgmt ╪──┐     └──────────┘       ┌ controller ─────┐
//   └──────────┘  └────────────────────────╪ m0 m1 … bridge0 │   separate management network
//                                          └─────────────────┘
//
// Cables have no subnets: each NIC has one address (/32), and each switch has one: the first in the
// topology, or a generated one. The switch's address is the next hop for all its neighbours and the
// source of its ICMP messages. The management network has no rate limits.
//
// Pure, except for ReadTopologyFile.
#ifndef MCCS_LAB_FABRIC_PLAN_H_
#define MCCS_LAB_FABRIC_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/lab_state.h"
#include "topology/topology.h"

namespace mccs::lab {

inline constexpr size_t kMaxFabricSwitches = 256;

// MTU of the management network. Links have the topology's MTU.
inline constexpr int kManagementMtu = 9000;

// Index into FabricPlan::nodes.
using NodeId = StrongInt<struct NodeIdTag, int32_t>;

struct FabricNode {
  // kManagement: the bridge of the management network, where the controller runs.
  enum class Kind { kManagement, kSwitch, kHost };

  Kind kind = Kind::kManagement;
  std::string name;
  std::string address;  // of a host: address of its first NIC
};

struct CableEnd {
  NodeId node;
  std::string device;
  std::string name;  // for messages: "h1/nic0", "leaf0"
};

struct Cable {
  std::string name;  // of the link
  CableEnd a, b;
  uint64_t rate_bps = 0;  // per direction
};

struct FabricPlan {
  Topology topology;
  std::vector<FabricNode> nodes;           // management, then the switches, then the hosts
  std::vector<Cable> cables;               // by link
  std::vector<std::string> nic_addresses;  // by NIC

  NodeId management() const { return NodeId(0); }
  NodeId NodeOf(SwitchId at) const { return NodeId(1 + at.value()); }
  NodeId NodeOf(HostId host) const {
    return NodeId(static_cast<int32_t>(1 + topology.switches().size()) + host.value());
  }
  const FabricNode& node(NodeId id) const { return nodes[id.value()]; }
  // The sending end of `arc`.
  const CableEnd& Tail(ArcId arc) const {
    const Cable& cable = cables[LinkOf(arc).value()];
    return IsForward(arc) ? cable.a : cable.b;
  }
};

// kInvalidArgument, one line per reason: too many nodes, invalid names of devices or hosts,
// addresses that are not IPv4 or that the lab reserves.
absl::StatusOr<FabricPlan> PlanFabric(Topology topology);

inline constexpr char kManagementDevice[] = "mgmt";  // of a host
inline constexpr char kManagementBridge[] = "bridge0";
inline constexpr int kManagementPrefixLength = 16;

std::string ManagementAddressOf(HostId host);

// Fixed ports (nothing else listens in a node), so that flows have the same hashes each time.
inline constexpr uint16_t kHostPort = 7400;
inline constexpr uint16_t kControllerPort = 7500;

// Contents of /etc/hosts: names and addresses of all hosts and switches.
std::string HostsFile(const FabricPlan& plan);

// Reads the topology file of a lab.

struct TopologyFile {
  std::string text;
  Topology topology;
};

absl::StatusOr<TopologyFile> ReadTopologyFile(const std::string& path);

// Hosts on the machine's own network, with names, GPUs and positions but without links.
std::vector<LabHost> PlainHostsOf(const Topology& topology);
// Hosts on the fabric.
std::vector<LabHost> FabricHostsOf(const FabricPlan& plan);

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_PLAN_H_
