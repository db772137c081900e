// How the fabric maps a flow's source port to a path, from the topology file.
//
// kRules: the operator routes ranges of ports. At each switch the first matching rule decides, in
//         the order of the file: its ports contain the flow's, and it names an equal next hop.
// kHash:  each switch hashes the flow's five-tuple with a known function.
// kProbe: the mapping is not known; daemons probe it.
#ifndef MCCS_TOPOLOGY_SOURCE_PORT_MAPPING_H_
#define MCCS_TOPOLOGY_SOURCE_PORT_MAPPING_H_

#include <cstdint>
#include <vector>

namespace mccs {

// Both ends included.
struct SourcePortRange {
  uint16_t first = 0;
  uint16_t last = 0;

  bool Contains(uint16_t port) const { return first <= port && port <= last; }
  bool Overlaps(const SourcePortRange& other) const {
    return first <= other.last && other.first <= last;
  }
};

struct PortRule {
  SourcePortRange ports;
  std::vector<bool> at;   // by switch; empty: at every switch
  std::vector<bool> via;  // by arc: the next hops that it names
};

// The only known hash: topology/linux_multipath_hash.h.
struct SwitchHash {
  uint32_t seed = 0;    // of switches without a seed of their own
  uint32_t fields = 0;  // bits of kHash… in topology/linux_multipath_hash.h
};

struct SourcePortMapping {
  enum class Kind { kProbe, kRules, kHash };

  Kind kind = Kind::kProbe;
  // Permitted source ports of lanes. Above Linux's default range of ephemeral ports (32768 to
  // 60999), so that other programs do not use them by chance.
  SourcePortRange candidates = {61000, 65535};
  std::vector<PortRule> rules;  // kRules
  SwitchHash hash;              // kHash
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SOURCE_PORT_MAPPING_H_
