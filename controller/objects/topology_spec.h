// `kind: Topology`: the racks, switches, hosts and links of the cluster. Its spec is described in
// topology/topology_reader.h.
#ifndef MCCS_CONTROLLER_OBJECTS_TOPOLOGY_SPEC_H_
#define MCCS_CONTROLLER_OBJECTS_TOPOLOGY_SPEC_H_

#include <memory>
#include <string>

#include "base/yaml_config.h"
#include "topology/topology.h"

namespace YAML {
class Emitter;
}

namespace mccs {

struct TopologySpec {
  std::string text;  // as YAML, without comments
  std::shared_ptr<const Topology> topology;

  friend bool operator==(const TopologySpec& a, const TopologySpec& b) { return a.text == b.text; }
};

// `document` is the whole object; its `spec` has not been read yet. Errors are reported by Finish()
// of the document.
TopologySpec ReadTopologyObject(YamlReader document, const std::string& name);

// Writes a mapping that is read as an equal spec.
void Emit(const TopologySpec& spec, YAML::Emitter* out);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_TOPOLOGY_SPEC_H_
