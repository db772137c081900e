// The topology that a lab is made of.
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

// Its hosts on the machine's own network: with their names, GPUs and places, but without links.
std::vector<LabHost> PlainHostsOf(const Topology& topology);
// Its hosts on the fabric.
std::vector<LabHost> FabricHostsOf(const FabricPlan& plan);

}  // namespace mccs::lab

#endif  // MCCS_LAB_TOPOLOGY_FILE_H_
