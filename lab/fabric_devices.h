// Lines for `ip -batch` and `tc -batch` that create a fabric's devices.
//
// Pure.
#ifndef MCCS_LAB_FABRIC_DEVICES_H_
#define MCCS_LAB_FABRIC_DEVICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/fabric_plan.h"
#include "lab/node.h"

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

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_DEVICES_H_
