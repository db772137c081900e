// A machine's parts as the piece of a `kind: Topology` that is about one host: what `mccsd
// --print-topology` prints. Pure.
#ifndef MCCS_SERVICE_TOPOLOGY_TEXT_H_
#define MCCS_SERVICE_TOPOLOGY_TEXT_H_

#include <string>

#include "service/machine_parts.h"

namespace mccs {

struct HostNames {
  std::string host;
  std::string rack;  // empty: not configured
  int configured_gpus = 0;
};

// YAML for the list spec.hosts. Words in capitals stand for what a host cannot see (SWITCH, RACK,
// SPEED), with a comment each; a Topology that still has them is refused.
std::string TopologyText(const HostNames& names, const MachineParts& parts);

}  // namespace mccs

#endif  // MCCS_SERVICE_TOPOLOGY_TEXT_H_
