// Who keeps a lab: two processes in the background that watch each other.
//
//   mccs-lab up ─── keeper ─── warden ─┬─ mccs-controller
//     (leaves)     (cleans)  (starts)  ├─ mccsd h0
//                                      ├─ mccsd h1 …
//                                      └─ holders of nodes, in a lab with a network (lab/node.h)
//
// The warden starts the daemons, records how they are and stops them in order. The keeper waits for
// the warden: however that ends, kill -9 included, the keeper kills what descends from it and
// removes the lab's folder. A keeper that dies takes the warden with it (a death signal), and the
// warden cleans up. The daemons and the nodes die with the warden. Only a kill -9 of both leaves a
// folder, which the next command removes.
#ifndef MCCS_LAB_SUPERVISOR_H_
#define MCCS_LAB_SUPERVISOR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "lab/environment.h"
#include "lab/fabric_plan.h"
#include "lab/lab_directory.h"
#include "lab/lab_state.h"
#include "lab/network_tools.h"
#include "lab/products.h"

namespace mccs::lab {

struct LabNetwork {
  FabricPlan fabric;
  NetworkTools tools;
  std::string topology_text;  // that the fabric was read from
};

struct LabPlan {
  std::string name;
  std::vector<LabHost> hosts;
  std::vector<std::string> tenants{};  // each has a socket of its own on every host
  std::string mccsd_config{};          // lines of YAML for every host's daemon
  Products products;
  // Of the daemons.
  Environment environment;
  // Where each host has a network namespace of its own.
  std::optional<LabNetwork> network{};
  // A daemon that has not ended this long after SIGTERM is killed.
  int64_t stop_grace_ns = 5 * kNsPerSec;
};

// Forks the supervisor into the background and blocks until every daemon is ready, or until the lab
// is gone again: then the error says which daemon failed, with the tail of its log.
absl::Status StartLab(const LabPlan& plan, const LabDirectories& directories);

// Tells the lab to go and blocks until nothing of it is left. kNotFound: there is none of that
// name. kDeadlineExceeded: something is left.
absl::Status StopLab(const std::string& name, const LabDirectories& directories);

}  // namespace mccs::lab

#endif  // MCCS_LAB_SUPERVISOR_H_
