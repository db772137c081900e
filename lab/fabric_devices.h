// Lines for `ip -batch` and `tc -batch` that make a fabric's devices.
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

// All veth pairs, those of the management network included, each end in its node. `node_pids`: who
// holds each node.
std::string CableLines(const FabricPlan& plan, const std::vector<int32_t>& node_pids);

// A node's devices get their addresses and come up. REQUIRES: run there, after CableLines.
std::string DeviceLines(const FabricPlan& plan, NodeId node);

// For tc: what leaves the node keeps to the rates of its cables, and of what waits there the higher
// class of DSCP (its upper three bits, the class selector) goes first. REQUIRES: run there, once.
std::string QueueLines(const FabricPlan& plan, NodeId node);
std::string QueueLines(const CableEnd& end, uint64_t rate_bps);
// Likewise: another rate for one that has its queues.
std::string RateLines(const CableEnd& end, uint64_t rate_bps);

// What distinguishes the kernel's behaviour in this node from the default.
std::vector<Sysctl> SysctlsOf(const FabricPlan& plan, NodeId node);

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_DEVICES_H_
