#include "controller/view/lane_path.h"

#include "base/endpoint.h"
#include "controller/view/flow.h"

namespace mccs {
namespace {

// The NIC with that address, from the Topology or the host's report, or the only NIC.
std::optional<NicId> NicOfAddress(const FabricHost& host, const std::string& address) {
  const Topology& topology = host.fabric->topology();
  const std::vector<NicId>& nics = topology.host(host.id).nics;
  for (const NicId nic : nics) {
    if (topology.nic(nic).address == address) return nic;
  }
  for (const LaneNic& nic : host.nics) {
    if (nic.address == address) return nic.id;
  }
  return nics.size() == 1 || address == host.own_address ? host.own : std::nullopt;
}

}  // namespace

std::optional<std::vector<std::string>> LinksOfLane(const Fabrics& fabrics, const LaneEnds& lane) {
  const absl::StatusOr<Endpoint> local = ParseEndpoint(lane.local);
  const absl::StatusOr<Endpoint> remote = ParseEndpoint(lane.remote);
  if (!local.ok() || !remote.ok() || local->port == 0 || remote->port == 0) return std::nullopt;
  const FabricHost* const from = fabrics.Find(lane.from);
  const FabricHost* const to = fabrics.Find(lane.to);
  if (from == nullptr || to == nullptr || from == to || from->fabric != to->fabric)
    return std::nullopt;
  const std::optional<NicId> out = NicOfAddress(*from, local->host),
                             into = NicOfAddress(*to, remote->host);
  if (!out || !into) return std::nullopt;
  const std::optional<Path> path = PathOf(*from->fabric, {.from_nic = *out,
                                                          .to_nic = *into,
                                                          .destination_port = remote->port,
                                                          .source_port = local->port});
  if (!path) return std::nullopt;
  std::vector<std::string> links;
  const Topology& topology = from->fabric->topology();
  for (const ArcId arc : *path) links.push_back(topology.link(LinkOf(arc)).name);
  return links;
}

}  // namespace mccs
