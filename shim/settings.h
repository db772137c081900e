// Where a variable's value comes from: the process's environment, else the configuration files that
// NCCL reads: $NCCL_CONF_FILE, or ~/.nccl.conf where that is not set, then /etc/nccl.conf. A file
// has lines of NAME=value; '#' begins a comment line. The first that says something wins.
//
// THREAD: any. The files are read at the first question and then kept; the environment is read anew
// each time. The process's own environment is never written: its threads may be reading it.
#ifndef MCCS_SHIM_SETTINGS_H_
#define MCCS_SHIM_SETTINGS_H_

#include <map>
#include <optional>
#include <string>

namespace mccs::shim {

struct Setting {
  std::string value;
  std::string source;  // "environment", or the file
};

// Set at all, perhaps to nothing.
std::optional<Setting> FindSetting(const std::string& name);
// The value, where it is set and not empty.
std::optional<std::string> ValueOf(const std::string& name);

// Every variable of the given prefix that is set somewhere, by name.
std::map<std::string, Setting> SettingsWithPrefix(const std::string& prefix);

// Reads the files again (ncclResetDebugInit).
void ReloadSettings();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SETTINGS_H_
