// Results of probes: the switches that flows pass, by the addresses in their answers
// (docs/decisions/0036-probing-paths.md). A value; part of policies' views.
#ifndef MCCS_TOPOLOGY_PROBED_PATHS_H_
#define MCCS_TOPOLOGY_PROBED_PATHS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "topology/five_tuple.h"

namespace mccs {

// The switches on a flow's path, each as the IPv4 address of its answer; 0: no answer.
using Hops = std::vector<uint32_t>;

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

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_PROBED_PATHS_H_
