// Lines for `ip -batch` and `tc -batch` that create a fabric's devices and routes.
//
// Pure.
#ifndef MCCS_LAB_FABRIC_LINES_H_
#define MCCS_LAB_FABRIC_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/fabric_plan.h"
#include "lab/node.h"
#include "topology/ecmp_paths.h"

namespace mccs::lab {

// Creates all veth pairs, including those of the management network, with each end in its node.
// `node_pids`: pid of each node's holder process.
std::string CableLines(const FabricPlan& plan, const std::vector<int32_t>& node_pids);

// Sets the addresses of a node's devices and brings them up. REQUIRES: run in the node, after
// CableLines.
std::string DeviceLines(const FabricPlan& plan, NodeId node);

// For tc: limits the node's outgoing traffic to the rates of its cables, with strict priority by
// DSCP class selector (upper three bits; higher first). REQUIRES: run in the node, once.
std::string QueueLines(const FabricPlan& plan, NodeId node);
std::string QueueLines(const CableEnd& end, uint64_t rate_bps);
// For tc: changes the rate of a device that has its queues.
std::string RateLines(const CableEnd& end, uint64_t rate_bps);

// Kernel settings of this node that differ from the default.
std::vector<Sysctl> SysctlsOf(const FabricPlan& plan, NodeId node);

// Routes of a fabric's nodes as lines for `ip -batch`: ECMP as of a routing protocol, and the
// operator's port rules.
//
// A switch's main table has all shortest next hops to each NIC and switch; the kernel hashes among
// them. Table kRuleTables + i has those next hops that port rule i of the topology names. If the
// rule names none of them, the lookup continues with the next table.
//
// A host sends packets with a NIC's source address through that NIC, and packets without a chosen
// source address through the first NIC whose link is up.

inline constexpr int kRuleTables = 1000;
inline constexpr int kNicTables = 2000;  // on hosts: table kNicTables + j is that of NIC j

// Rules that select a table for each packet. Set once, at the start.
std::string RuleLines(const FabricPlan& plan, NodeId node);

// THREAD: one.
class FabricRoutes {
 public:
  // `down`: by link; empty: all links are up.
  // LIFETIME: `plan` outlives this.
  FabricRoutes(const FabricPlan& plan, std::vector<bool> down);

  // Lines that replace all routes of the node.
  std::string LinesFor(NodeId node);

 private:
  std::string SwitchLines(SwitchId at);
  std::string HostLines(HostId host);
  // Appends routes from switch `at` to `destination`, which is attached to switch `toward`.
  void AppendRoutes(SwitchId at, const std::string& destination, SwitchId toward,
                    std::string* lines);
  bool IsDown(LinkId link) const { return !down_.empty() && down_[link.value()]; }

  const FabricPlan& plan_;
  const std::vector<bool> down_;
  EcmpPaths paths_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_LINES_H_
