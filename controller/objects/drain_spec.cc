#include "controller/objects/drain_spec.h"

#include <yaml-cpp/yaml.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "controller/objects/read_objects.h"

namespace mccs {
namespace {

std::string DottedName(const DrainSpec& spec) {
  std::string name =
      spec.host.empty() ? absl::StrCat("link.", spec.link) : absl::StrCat("host.", spec.host);
  for (char& c : name) {
    const bool ordinary =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    if (!ordinary) c = '.';
  }
  return name;
}

}  // namespace

DrainSpec ReadDrainSpec(YamlReader yaml) {
  DrainSpec spec;
  yaml.Field("host", &spec.host);
  yaml.Field("link", &spec.link);
  yaml.Field("reason", &spec.reason);
  if (yaml.Has("host") && yaml.Has("link")) {
    yaml.Reject("link", "a Drain has either a host or a link; write two Drains");
  } else if (!yaml.Has("host") && !yaml.Has("link")) {
    yaml.Field("host", &spec.host, Need::kRequired);
  } else if (spec.host.empty() && spec.link.empty()) {
    yaml.Reject(yaml.Has("host") ? "host" : "link", "the name is empty");
  }
  if (spec.reason.size() > kLongestReason) {
    yaml.Reject("reason",
                absl::StrCat("'reason' is too long: the limit is ", kLongestReason, " bytes"));
  }
  return spec;
}

void Emit(const DrainSpec& spec, YAML::Emitter* out) {
  *out << YAML::BeginMap;
  if (!spec.host.empty()) *out << YAML::Key << "host" << YAML::Value << spec.host;
  if (!spec.link.empty()) *out << YAML::Key << "link" << YAML::Value << spec.link;
  if (!spec.reason.empty()) *out << YAML::Key << "reason" << YAML::Value << spec.reason;
  *out << YAML::EndMap;
}

std::string TargetText(const DrainSpec& spec) {
  return spec.host.empty() ? absl::StrCat("link ", spec.link) : absl::StrCat("host ", spec.host);
}

std::string DrainName(const DrainSpec& spec) {
  std::string name = DottedName(spec);
  return name.size() <= kLongestObjectName ? name : HashedDrainName(spec);
}

std::string HashedDrainName(const DrainSpec& spec) {
  // FNV-1a of the original name, without replaced characters.
  uint32_t hash = 2166136261u;
  for (const char c : TargetText(spec)) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  const std::string tail = absl::StrCat("-", absl::Hex(hash, absl::kZeroPad8));
  return DottedName(spec).substr(0, kLongestObjectName - tail.size()) + tail;
}

}  // namespace mccs
