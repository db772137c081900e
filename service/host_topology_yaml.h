// The host's entry of a `kind: Topology`, made from the parts of a machine: `mccsd
// --print-topology` prints it. Pure.
#ifndef MCCS_SERVICE_HOST_TOPOLOGY_YAML_H_
#define MCCS_SERVICE_HOST_TOPOLOGY_YAML_H_

#include <string>

#include "service/machine_parts.h"

namespace mccs {

struct HostNames {
  std::string host;
  std::string rack;  // empty: not configured
  int configured_gpus = 0;
};

// YAML for the list spec.hosts. Placeholders in capitals, each with a comment, replace what a host
// cannot detect (SWITCH, RACK, SPEED); the controller rejects a Topology that contains them.
std::string HostTopologyYaml(const HostNames& names, const MachineParts& parts);

}  // namespace mccs

#endif  // MCCS_SERVICE_HOST_TOPOLOGY_YAML_H_
