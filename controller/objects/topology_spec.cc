#include "controller/objects/topology_spec.h"

#include <yaml-cpp/yaml.h>

#include "topology/topology_reader.h"

namespace mccs {

TopologySpec ReadTopologyObject(YamlReader document, const std::string& name) {
  TopologySpec spec;
  spec.text = document.TextOf("spec", Need::kRequired);
  if (!document.Has("spec")) return spec;
  spec.topology = std::make_shared<const Topology>(ReadTopologySpec(document.Child("spec"), name));
  return spec;
}

void Emit(const TopologySpec& spec, YAML::Emitter* out) { *out << YAML::Load(spec.text); }

}  // namespace mccs
