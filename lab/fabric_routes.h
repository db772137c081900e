// How packets find their way: lines for `ip -batch`, as a routing protocol of the fabric would
// leave them, or the operator's port rules.
//
// A switch has in its main table, for each NIC and switch, all nearest next hops: the kernel hashes
// among them. For port rule i of the topology it has the table kRuleTables + i besides, with those
// of the next hops that the rule names; where the rule names none of them, the table passes the
// lookup on to the next one.
//
// A host sends from a NIC's address through that NIC, and through the first one whose link is up
// where a program has chosen no address.
//
// Pure.
#ifndef MCCS_LAB_FABRIC_ROUTES_H_
#define MCCS_LAB_FABRIC_ROUTES_H_

#include <string>
#include <vector>

#include "lab/fabric_plan.h"
#include "topology/ecmp_paths.h"

namespace mccs::lab {

inline constexpr int kRuleTables = 1000;
inline constexpr int kNicTables = 2000;  // of hosts: that of NIC j of the host is kNicTables + j

// Which packets look into which table. Once, at the start.
std::string RuleLines(const FabricPlan& plan, NodeId node);

// THREAD: one.
class FabricRoutes {
 public:
  // For the links that are not `down` (by link; empty: none is).
  // LIFETIME: `plan` outlives this.
  FabricRoutes(const FabricPlan& plan, std::vector<bool> down);

  // Replace whatever routes the node had.
  std::string LinesFor(NodeId node);

 private:
  std::string OfSwitch(SwitchId at);
  std::string OfHost(HostId host);
  // To what is at the switch `toward`.
  void AppendWays(SwitchId at, const std::string& destination, SwitchId toward, std::string* lines);
  bool IsDown(LinkId link) const { return !down_.empty() && down_[link.value()]; }

  const FabricPlan& plan_;
  const std::vector<bool> down_;
  EcmpPaths paths_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_ROUTES_H_
