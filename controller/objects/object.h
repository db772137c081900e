// The operators' configuration: a set of objects with apiVersion, kind, metadata and spec.
//
//   apiVersion: mccs/v1
//   kind: Tenant
//   metadata:
//     name: team-a
//     resourceVersion: 7    # from `mccsctl get`; absent: replaces any stored version
//   spec:
//     …
#ifndef MCCS_CONTROLLER_OBJECTS_OBJECT_H_
#define MCCS_CONTROLLER_OBJECTS_OBJECT_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/yaml_config.h"
#include "controller/objects/drain_spec.h"
#include "controller/objects/policy_spec.h"
#include "controller/objects/tenant_spec.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr char kApiVersion[] = "mccs/v1";

enum class ObjectKind { kTenant, kPolicy, kTopology, kDrain };
inline constexpr ObjectKind kObjectKinds[] = {ObjectKind::kTenant, ObjectKind::kPolicy,
                                              ObjectKind::kTopology, ObjectKind::kDrain};

// "Tenant"; ParseKind is the reverse, nothing for an unknown kind.
const char* KindName(ObjectKind kind);
std::optional<ObjectKind> ParseKind(std::string_view word);

// The spec of a Topology (topology/topology_reader.h): racks, switches, hosts and links.
struct TopologySpec {
  std::string text;  // as YAML, without comments
  std::shared_ptr<const Topology> topology;

  friend bool operator==(const TopologySpec& a, const TopologySpec& b) { return a.text == b.text; }
};

struct ObjectKey {
  ObjectKind kind = ObjectKind::kTenant;
  std::string name;

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// "Tenant 'team-a'".
std::string ToText(const ObjectKey& key);

// The place where an object was read, for error messages. Not stored.
struct ObjectOrigin {
  std::string file;
  YamlPosition begin;
  std::map<std::string, YamlPosition> places;  // of values, by path: "spec.selector.tenants[1]"
};

struct Object {
  ObjectKey key;
  // Stored object: the revision of its last change. Object as read: the version that the document
  // edits; 0: any.
  uint64_t version = 0;
  std::variant<TenantSpec, PolicySpec, TopologySpec, DrainSpec> spec;
  std::optional<ObjectOrigin> origin;  // absent: from the store
};

// The object as a canonical document: equal for equal objects. Without `with_version` it has no
// resourceVersion.
std::string DocumentOf(const Object& object, bool with_version);

// Place of `field` ("spec.cap") of `object`, or of its nearest parent: "a.yaml:7:8". For an object
// from the store: "stored, version 12".
std::string PlaceOf(const Object& object, const std::string& field);

// All objects at one moment. An immutable value; a change creates a new set.
struct ObjectSet {
  static constexpr size_t kMaxObjects = 10'000;

  std::map<ObjectKey, Object> objects;
  uint64_t revision = 0;  // incremented by each change

  // Null: not found.
  const Object* Find(const ObjectKey& key) const;
  std::vector<const Object*> OfKind(ObjectKind kind) const;
  std::vector<std::string> NamesOf(ObjectKind kind) const;
};

inline const TenantSpec& TenantOf(const Object& object) {
  return std::get<TenantSpec>(object.spec);
}
inline const PolicySpec& PolicyOf(const Object& object) {
  return std::get<PolicySpec>(object.spec);
}
inline const TopologySpec& TopologyOf(const Object& object) {
  return std::get<TopologySpec>(object.spec);
}
inline const DrainSpec& DrainOf(const Object& object) { return std::get<DrainSpec>(object.spec); }

// The Tenant of processes with this origin, by the same rule as in daemons
// (proto/tenant_selector.h). Null: none.
const Object* FindTenant(const ObjectSet& set, const ProcessOrigin& origin);
// The name of that Tenant; without one, the tenant name that daemons report.
std::string TenantNameOf(const ObjectSet& set, const ProcessOrigin& origin);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_OBJECT_H_
