// Which of the equal paths of two NICs a flow takes, by what its switches have answered to probes.
// Pure.
#ifndef MCCS_TOPOLOGY_HOP_PATH_H_
#define MCCS_TOPOLOGY_HOP_PATH_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "topology/ecmp_paths.h"
#include "topology/probed_paths.h"
#include "topology/topology.h"

namespace mccs {

// The switches that have addresses in the topology.
class SwitchAddresses {
 public:
  explicit SwitchAddresses(const Topology& topology);

  bool empty() const { return switches_.empty(); }
  // Whether the switch may have answered so. One of which no address is known may answer by any
  // that is no other's; none may keep silent (0), too.
  bool MayBe(uint32_t hop, SwitchId at) const;

 private:
  absl::flat_hash_map<uint32_t, SwitchId> switches_;
  std::vector<bool> named_;  // by switch: it has addresses
};

// The only path that the hops fit to; nothing where there is none (the flow takes a way that the
// topology has not, or not as a shortest one), or several (parallel links, too many silent
// switches).
std::optional<PathIndex> PathOfHops(const Topology& topology, const SwitchAddresses& addresses,
                                    const PathSet& paths, NicId from, const Hops& hops);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_HOP_PATH_H_
