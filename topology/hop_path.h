// Results of probes: the switches that flows pass, by the addresses in their answers
// (docs/decisions/0036-probing-paths.md), and which of the equal paths of two NICs they show. Pure.
#ifndef MCCS_TOPOLOGY_HOP_PATH_H_
#define MCCS_TOPOLOGY_HOP_PATH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "topology/ecmp_paths.h"
#include "topology/five_tuple.h"
#include "topology/topology.h"

namespace mccs {

// The switches on a flow's path, each as the IPv4 address of its answer; 0: no answer.
using Hops = std::vector<uint32_t>;

// A value; part of policies' views.
class ProbedPaths {
 public:
  void Set(const FiveTuple& flow, Hops hops);
  void Erase(const FiveTuple& flow);
  // Null: not known.
  const Hops* Find(const FiveTuple& flow) const;

  // All results for flows that differ from `flow` only in the source port, by source port.
  using ByPort = std::map<uint16_t, Hops>;
  const ByPort& PortsOf(FiveTuple flow) const;

  friend bool operator==(const ProbedPaths&, const ProbedPaths&) = default;

 private:
  std::map<FiveTuple, ByPort> flows_;  // their source port is 0
};

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
