#include "lab/topology_file.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "topology/topology_reader.h"

namespace mccs::lab {
namespace {

LabHost HostOf(const Topology& topology, HostId id, std::string address, uint16_t port) {
  const Position position = topology.PositionOf(id);
  return {.name = position.host,
          .address = std::move(address),
          .port = port,
          .gpus = static_cast<int32_t>(topology.host(id).gpus.size()),
          .pod = position.pod,
          .rack = position.rack,
          .listens_everywhere = false};
}

}  // namespace

absl::StatusOr<TopologyFile> ReadTopologyFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  MCCS_ASSIGN_OR_RETURN(Topology topology, ParseTopology(text.str(), path));
  return TopologyFile{text.str(), std::move(topology)};
}

std::vector<LabHost> PlainHostsOf(const Topology& topology) {
  std::vector<LabHost> hosts;
  for (int32_t i = 0; i < static_cast<int32_t>(topology.hosts().size()); ++i) {
    hosts.push_back(HostOf(topology, HostId(i), PlainAddress(i), 0));
  }
  return hosts;
}

std::vector<LabHost> FabricHostsOf(const FabricPlan& plan) {
  std::vector<LabHost> hosts;
  for (int32_t i = 0; i < static_cast<int32_t>(plan.topology.hosts().size()); ++i) {
    hosts.push_back(
        HostOf(plan.topology, HostId(i), plan.node(plan.NodeOf(HostId(i))).address, kHostPort));
    hosts.back().listens_everywhere = plan.topology.host(HostId(i)).nics.size() > 1;
  }
  return hosts;
}

}  // namespace mccs::lab
