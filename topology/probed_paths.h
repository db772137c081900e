// What probes have found: which switches flows pass, by the addresses with which these answer
// (docs/decisions/0036-probing-paths.md). A value; policies see it as part of their view.
#ifndef MCCS_TOPOLOGY_PROBED_PATHS_H_
#define MCCS_TOPOLOGY_PROBED_PATHS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "topology/five_tuple.h"

namespace mccs {

// The switches on a flow's way, each by the IPv4 address that its answer came from; 0: no answer.
using Hops = std::vector<uint32_t>;

class ProbedPaths {
 public:
  void Set(const FiveTuple& flow, Hops hops);
  void Erase(const FiveTuple& flow);
  // Null: not known.
  const Hops* Find(const FiveTuple& flow) const;

  // All that is known of flows that differ from this one in their source port alone, by it.
  using ByPort = std::map<uint16_t, Hops>;
  const ByPort& PortsOf(FiveTuple flow) const;

  friend bool operator==(const ProbedPaths&, const ProbedPaths&) = default;

 private:
  std::map<FiveTuple, ByPort> flows_;  // their source port is 0
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_PROBED_PATHS_H_
