#include "controller/objects/object.h"

#include <yaml-cpp/yaml.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

// The parent: "spec.selector.tenants[1]" → "spec.selector.tenants" → "spec.selector" → "spec" → "".
std::string Holder(const std::string& field) {
  const size_t cut = field.find_last_of(".[");
  return cut == std::string::npos ? "" : field.substr(0, cut);
}

void Emit(const TopologySpec& spec, YAML::Emitter* out) { *out << YAML::Load(spec.text); }

}  // namespace

const char* KindName(ObjectKind kind) {
  static constexpr const char* kNames[] = {"Tenant", "Policy", "Topology", "Drain"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<ObjectKind> ParseKind(std::string_view word) {
  for (ObjectKind kind : kObjectKinds) {
    if (word == KindName(kind)) return kind;
  }
  return std::nullopt;
}

std::string ToText(const ObjectKey& key) {
  return absl::StrCat(KindName(key.kind), " '", key.name, "'");
}

std::string DocumentOf(const Object& object, bool with_version) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "apiVersion" << YAML::Value << kApiVersion;
  out << YAML::Key << "kind" << YAML::Value << KindName(object.key.kind);
  out << YAML::Key << "metadata" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "name" << YAML::Value << object.key.name;
  if (with_version) out << YAML::Key << "resourceVersion" << YAML::Value << object.version;
  out << YAML::EndMap;
  out << YAML::Key << "spec" << YAML::Value;
  std::visit([&](const auto& spec) { Emit(spec, &out); }, object.spec);
  out << YAML::EndMap;
  MCCS_CHECK(out.good());
  return absl::StrCat(out.c_str(), "\n");
}

std::string PlaceOf(const Object& object, const std::string& field) {
  if (!object.origin) return absl::StrCat("stored, version ", object.version);
  YamlPosition place = object.origin->begin;
  for (std::string path = field; !path.empty(); path = Holder(path)) {
    const auto known = object.origin->places.find(path);
    if (known == object.origin->places.end()) continue;
    place = known->second;
    break;
  }
  return absl::StrCat(object.origin->file, ":", place.line, ":", place.column);
}

const Object* ObjectSet::Find(const ObjectKey& key) const {
  const auto found = objects.find(key);
  return found != objects.end() ? &found->second : nullptr;
}

std::vector<const Object*> ObjectSet::OfKind(ObjectKind kind) const {
  std::vector<const Object*> found;
  for (auto at = objects.lower_bound({kind, ""}); at != objects.end() && at->first.kind == kind;
       ++at)
    found.push_back(&at->second);
  return found;
}

std::vector<std::string> ObjectSet::NamesOf(ObjectKind kind) const {
  std::vector<std::string> names;
  for (const Object* object : OfKind(kind)) names.push_back(object->key.name);
  return names;
}

const Object* FindTenant(const ObjectSet& set, const ProcessOrigin& origin) {
  const auto* found =
      FindMatch(set.objects, origin, [](const auto& entry) -> const TenantSelector* {
        return entry.first.kind == ObjectKind::kTenant ? &TenantOf(entry.second) : nullptr;
      });
  return found != nullptr ? &found->second : nullptr;
}

std::string TenantNameOf(const ObjectSet& set, const ProcessOrigin& origin) {
  const Object* tenant = FindTenant(set, origin);
  return tenant != nullptr ? tenant->key.name : origin.tenant_name;
}

}  // namespace mccs
