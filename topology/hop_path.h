// Finds which of the equal paths of two NICs a flow takes, from its switches' answers to probes.
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

// The addresses of switches in a topology.
class SwitchAddresses {
 public:
  explicit SwitchAddresses(const Topology& topology);

  bool empty() const { return switches_.empty(); }
  // Whether the switch may have sent this answer. A switch without known addresses may answer from
  // any address that no other switch has. Every switch may be silent (0).
  bool MayBe(uint32_t hop, SwitchId at) const;

 private:
  absl::flat_hash_map<uint32_t, SwitchId> switches_;
  std::vector<bool> named_;  // by switch: it has known addresses
};

// The only path that matches the hops. Nothing: none does (the flow takes a path that is not in the
// topology or not a shortest one), or several do (parallel links, too many silent switches).
std::optional<PathIndex> PathOfHops(const Topology& topology, const SwitchAddresses& addresses,
                                    const PathSet& paths, NicId from, const Hops& hops);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_HOP_PATH_H_
