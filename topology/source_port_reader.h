// Reads `source_ports` in a topology file (topology/topology_reader.h).
#ifndef MCCS_TOPOLOGY_SOURCE_PORT_READER_H_
#define MCCS_TOPOLOGY_SOURCE_PORT_READER_H_

#include <cstddef>

#include "base/yaml_config.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr size_t kMaxPortRules = 256;

// The mapping under `source_ports` of `spec`, for `topology`'s switches and links; kProbe if it is
// absent. The reader collects errors.
SourcePortMapping ReadSourcePorts(YamlReader& spec, const Topology& topology);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SOURCE_PORT_READER_H_
