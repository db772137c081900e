// What a topology becomes on one machine: nodes (lab/node.h), cables between them, and addresses.
//
//   ┌ h1 ──────┐        ┌ leaf0 ───┐       ┌ spine0 ──┐
//   │     nic0 ╪════════╪ p0    p2 ╪═══════╪ p0       │   one cable (a veth pair) for each link of
//   │     nic1 ╪════════╪ p1    p3 ╪══     └──────────┘   the topology
//   │     mgmt ╪──┐     └──────────┘       ┌ controller ─────┐
//   └──────────┘  └────────────────────────╪ m0 m1 … bridge0 │   management: unrated, apart
//                                          └─────────────────┘
//
// Cables are not numbered: a NIC has its address alone (/32), a switch has one, the first that the
// topology names for it or one of the lab's, which is the next hop of all its neighbours and the
// source of its ICMP messages.
//
// Pure.
#ifndef MCCS_LAB_FABRIC_PLAN_H_
#define MCCS_LAB_FABRIC_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/topology.h"

namespace mccs::lab {

inline constexpr size_t kMaxFabricSwitches = 256;

// Of the management network. Links have the topology's.
inline constexpr int kManagementMtu = 9000;

// A place among FabricPlan::nodes.
using NodeId = StrongInt<struct NodeIdTag, int32_t>;

struct FabricNode {
  // kManagement: the bridge of the management network, where the controller runs.
  enum class Kind { kManagement, kSwitch, kHost };

  Kind kind = Kind::kManagement;
  std::string name;
  std::string address;  // a host's is that of its first NIC
};

struct CableEnd {
  NodeId node;
  std::string device;
  std::string name;  // as people say it: "h1/nic0", "leaf0"
};

struct Cable {
  std::string name;  // the link's
  CableEnd a, b;
  uint64_t rate_bps = 0;  // each way
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
  // The end of the link of `arc` from which the arc leads away.
  const CableEnd& Tail(ArcId arc) const {
    const Cable& cable = cables[LinkOf(arc).value()];
    return IsForward(arc) ? cable.a : cable.b;
  }
};

// kInvalidArgument: the lab cannot lay this one out (too many nodes, names that no device or host
// can have, addresses that are not IPv4 or that the lab needs itself); one line for each reason.
absl::StatusOr<FabricPlan> PlanFabric(Topology topology);

inline constexpr char kManagementDevice[] = "mgmt";  // of a host
inline constexpr char kManagementBridge[] = "bridge0";
inline constexpr int kManagementPrefixLength = 16;

std::string ManagementAddressOf(HostId host);

// Where nothing else listens, ports can be the same each time: hashes of flows are, then.
inline constexpr uint16_t kHostPort = 7400;
inline constexpr uint16_t kControllerPort = 7500;

// The names of all hosts and switches with their addresses, for /etc/hosts.
std::string HostsFile(const FabricPlan& plan);

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_PLAN_H_
