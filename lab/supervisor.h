// Starts and stops labs. Two background processes run a lab and monitor each other:
//
//   mccs-lab up ─── supervisor ─── launcher ─┬─ mccs-controller
//     (exits)       (cleans up)    (starts)  ├─ mccsd h0
//                                            ├─ mccsd h1 …
//                                            └─ holders of nodes (lab/node.h), or QEMU
//                                               (lab/vms.h), in a lab with a network
//
// The launcher starts the daemons, records their state and stops them in order. The supervisor
// waits for the launcher. When the launcher ends, even by kill -9, the supervisor kills all
// descendants and removes the lab's directory. If the supervisor dies, the launcher gets a death
// signal and cleans up. The daemons and nodes die with the launcher. Only a kill -9 of both leaves
// the directory, which the next command removes.
#ifndef MCCS_LAB_SUPERVISOR_H_
#define MCCS_LAB_SUPERVISOR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "lab/environment.h"
#include "lab/fabric_plan.h"
#include "lab/lab_state.h"
#include "lab/network_tools.h"

namespace mccs::lab {

struct LabNetwork {
  FabricPlan fabric;
  NetworkTools tools;
  std::string topology_text;  // YAML that `fabric` was parsed from
};

struct LabPlan {
  std::string name;
  std::vector<LabHost> hosts;
  std::vector<std::string> tenants{};  // each has its own socket on every host
  std::string mccsd_config{};          // YAML lines for every daemon's configuration
  Products products;
  // Of the daemons.
  Environment environment;
  // Set if each host has its own network namespace.
  std::optional<LabNetwork> network{};
  // Not empty: each host is a virtual machine; the result of PrepareVms.
  std::vector<std::string> qemu{};
  bool has_vms() const { return !qemu.empty(); }
  // Time between SIGTERM and SIGKILL of a daemon.
  int64_t stop_grace_ns = 5 * kNsPerSec;
};

// Forks the supervisor into the background and blocks until every daemon is ready, or until the lab
// has failed and is removed. The error names the failed daemon, with the tail of its log.
absl::Status StartLab(const LabPlan& plan, const LabDirectories& directories);

// Stops the lab and blocks until it is removed. kNotFound: no lab has that name. kDeadlineExceeded:
// it is still running.
absl::Status StopLab(const std::string& name, const LabDirectories& directories);

}  // namespace mccs::lab

#endif  // MCCS_LAB_SUPERVISOR_H_
