// Reads the topology file of a lab.
#ifndef MCCS_LAB_TOPOLOGY_FILE_H_
#define MCCS_LAB_TOPOLOGY_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/fabric_plan.h"
#include "lab/lab_state.h"
#include "topology/topology.h"

namespace mccs::lab {

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

#endif  // MCCS_LAB_TOPOLOGY_FILE_H_
