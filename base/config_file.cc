#include "base/config_file.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/yaml_config.h"

namespace mccs {

absl::StatusOr<ConfigFile::Values> ConfigFile::ReadValues(const std::string& path) {
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(path));
  Values values;
  for (const auto& [place, position] : yaml.Positions()) {
    const std::string key = place.substr(0, place.find_first_of(".["));
    if (!values.contains(key)) values[key] = yaml.TextOf(key);
  }
  return values;
}

absl::StatusOr<ConfigFile> ConfigFile::Read(const std::string& path) {
  MCCS_ASSIGN_OR_RETURN(Values values, ReadValues(path));
  return ConfigFile(path, std::move(values));
}

absl::StatusOr<ConfigFile::Changes> ConfigFile::Reload(
    absl::FunctionRef<std::optional<std::string>(const std::string& key)> apply) {
  MCCS_ASSIGN_OR_RETURN(Values values, ReadValues(path_));
  std::set<std::string> keys;
  for (const auto& [key, value] : in_use_) keys.insert(key);
  for (const auto& [key, value] : values) keys.insert(key);
  Changes changes;
  for (const std::string& key : keys) {
    const auto old = in_use_.find(key);
    const auto now = values.find(key);
    if (old != in_use_.end() && now != values.end() && old->second == now->second) continue;
    std::optional<std::string> applied = apply(key);
    if (!applied.has_value()) {
      changes.need_restart.push_back(key);
      continue;
    }
    changes.applied.push_back(*std::move(applied));
    if (now == values.end()) {
      in_use_.erase(key);
    } else {
      in_use_[key] = now->second;
    }
  }
  return changes;
}

std::string Describe(const std::string& path, const ConfigFile::Changes& changes) {
  std::string line = absl::StrCat("reloaded ", path.empty() ? "without --config" : path, ": ");
  if (changes.applied.empty()) {
    line += changes.need_restart.empty() ? "nothing has changed" : "nothing else has changed";
  } else {
    absl::StrAppend(&line, "now ", absl::StrJoin(changes.applied, ", "));
  }
  if (!changes.need_restart.empty())
    absl::StrAppend(&line,
                    "; a restart is needed for: ", absl::StrJoin(changes.need_restart, ", "));
  return line;
}

}  // namespace mccs
