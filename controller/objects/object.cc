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

}  // namespace mccs
