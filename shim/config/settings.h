// The source of a variable's value: the process's environment, else the configuration files that
// NCCL reads: $NCCL_CONF_FILE, or ~/.nccl.conf if that is unset, then /etc/nccl.conf. A file has
// lines of NAME=value; '#' begins a comment line. The first source that sets the variable wins.
//
// THREAD: any. The files are read once, at the first query; the environment is read at each query.
// The library never writes the process's environment: other threads may be reading it.
#ifndef MCCS_SHIM_CONFIG_SETTINGS_H_
#define MCCS_SHIM_CONFIG_SETTINGS_H_

#include <map>
#include <optional>
#include <string>

namespace mccs::shim {

struct Setting {
  std::string value;
  std::string source;  // "environment", or the file
};

// The setting, even if its value is empty; nothing if the variable is unset.
std::optional<Setting> FindSetting(const std::string& name);
// The value; nothing if the variable is unset or empty.
std::optional<std::string> ValueOf(const std::string& name);

// All variables with this prefix that are set in any source, by name.
std::map<std::string, Setting> SettingsWithPrefix(const std::string& prefix);

// Reads the files again (ncclResetDebugInit).
void ReloadSettings();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_SETTINGS_H_
