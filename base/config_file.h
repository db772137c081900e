// A configuration file that a program reads again while it runs (SIGHUP): which keys have changed,
// which of them it uses now, and which need a restart.
//
// The program checks the new file by its own reader first. This only compares the keys.
//
// THREAD: one at a time. Blocks for the disk.
#ifndef MCCS_BASE_CONFIG_FILE_H_
#define MCCS_BASE_CONFIG_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace mccs {

class ConfigFile {
 public:
  // The values that the program has started with. kNotFound, kInvalidArgument: as
  // YamlReader::Open.
  static absl::StatusOr<ConfigFile> Read(const std::string& path);

  // The keys of the top level whose values in the file differ from those in use, in order.
  struct Changes {
    std::vector<std::string> applied;  // "log_level debug"
    std::vector<std::string> need_restart;
  };
  // Reads the file again. `apply` gets each changed key: it uses the new value from now on and
  // returns its description, or nothing if that needs a restart. Such a key counts as changed until
  // the program restarts, or the old value is back. Errors as Read; then nothing has changed.
  absl::StatusOr<Changes> Reload(
      absl::FunctionRef<std::optional<std::string>(const std::string& key)> apply);

  const std::string& path() const { return path_; }

 private:
  using Values = std::map<std::string, std::string>;  // YAML without comments, by key

  ConfigFile(std::string path, Values values)
      : path_(std::move(path)), in_use_(std::move(values)) {}
  static absl::StatusOr<Values> ReadValues(const std::string& path);

  std::string path_;
  Values in_use_;
};

// A line for the log: "reloaded FILE: now log_level debug; a restart is needed for: listen, lanes".
// `path` is empty if the program has no file.
std::string Describe(const std::string& path, const ConfigFile::Changes& changes);

}  // namespace mccs

#endif  // MCCS_BASE_CONFIG_FILE_H_
