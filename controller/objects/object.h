// What an operator says of the cluster: objects with apiVersion, kind, metadata and spec.
//
//   apiVersion: mccs/v1
//   kind: Tenant
//   metadata:
//     name: team-a
//     resourceVersion: 7    # as given out by `mccsctl get`; absent: whatever is stored is replaced
//   spec:
//     …
#ifndef MCCS_CONTROLLER_OBJECTS_OBJECT_H_
#define MCCS_CONTROLLER_OBJECTS_OBJECT_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/yaml_config.h"
#include "controller/objects/drain_spec.h"
#include "controller/objects/policy_spec.h"
#include "controller/objects/tenant_spec.h"
#include "controller/objects/topology_spec.h"

namespace mccs {

inline constexpr char kApiVersion[] = "mccs/v1";

enum class ObjectKind { kTenant, kPolicy, kTopology, kDrain };
inline constexpr ObjectKind kObjectKinds[] = {ObjectKind::kTenant, ObjectKind::kPolicy,
                                              ObjectKind::kTopology, ObjectKind::kDrain};

// "Tenant"; and back, nothing for another word.
const char* KindName(ObjectKind kind);
std::optional<ObjectKind> ParseKind(std::string_view word);

struct ObjectKey {
  ObjectKind kind = ObjectKind::kTenant;
  std::string name;

  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// "Tenant 'team-a'".
std::string ToText(const ObjectKey& key);

// Where an object was read, for errors. Nothing of it is kept.
struct ObjectOrigin {
  std::string file;
  YamlPlace begin;
  std::map<std::string, YamlPlace> places;  // of its values, by their path: "spec.for.tenants[1]"
};

struct Object {
  ObjectKey key;
  // Of what is stored: the revision at which it changed last. As read: what the document claims to
  // be an edit of; 0: it claims nothing.
  uint64_t version = 0;
  std::variant<TenantSpec, PolicySpec, TopologySpec, DrainSpec> spec;
  std::optional<ObjectOrigin> origin;  // absent: from the store
};

// The object as a document, the same for all that mean the same. Without `with_version` it bears no
// resourceVersion.
std::string DocumentOf(const Object& object, bool with_version);

// Where `field` ("spec.cap") of `object` stands, or what holds it: "a.yaml:7:8". For what came from
// the store "stored, version 12".
std::string PlaceOf(const Object& object, const std::string& field);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_OBJECT_H_
