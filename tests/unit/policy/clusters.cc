#include "tests/unit/policy/clusters.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

constexpr int kPorts = 4000;

}  // namespace

std::shared_ptr<const Topology> RoutedLeafSpine(const LeafSpineShape& shape) {
  auto topology = std::make_shared<Topology>(LeafSpine(shape));
  for (const Topology::Host& host : topology->hosts()) {
    for (size_t i = 0; i < std::min(host.gpus.size(), host.nics.size()); ++i) {
      if (topology->gpu(host.gpus[i]).near_nics.empty())
        topology->SetNear(host.gpus[i], host.nics[i]);
    }
  }
  const int per_spine = kPorts / shape.spines;
  topology->SetSourcePorts(RulesBySpine(
      *topology, shape.spines, {61000, static_cast<uint16_t>(60999 + per_spine * shape.spines)}));
  return topology;
}

CommunicatorView& AddCommunicator(ClusterView* view, uint64_t id, const std::string& tenant,
                                  const std::vector<std::string>& hosts,
                                  const std::vector<int>& gpus, int channels) {
  CommunicatorView communicator = MakeJob(id, tenant, hosts, {hosts.size(), gpus}, channels);
  view->communicators.push_back(std::move(communicator));
  return view->communicators.back();
}

}  // namespace mccs
