// Reads `source_ports` in a topology file (topology/topology_reader.h).
#ifndef MCCS_TOPOLOGY_SOURCE_PORT_READER_H_
#define MCCS_TOPOLOGY_SOURCE_PORT_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/yaml_config.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr size_t kMaxPortRules = 256;
inline constexpr uint16_t kLowestSourcePort = 1024;

// Reads "61000-61999" or "61000" under `key`, in 1024 to 65535: lower ports are privileged.
void ReadPortRange(YamlReader& entry, std::string_view key, Need need, SourcePortRange* out);
// The same syntax.
std::string FormatPortRange(const SourcePortRange& range);

// The mapping under `source_ports` of `spec`, for `topology`'s switches and links; kProbe if it is
// absent. The reader collects errors.
SourcePortMapping ReadSourcePorts(YamlReader& spec, const Topology& topology);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SOURCE_PORT_READER_H_
