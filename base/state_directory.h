// The files by which others find a running program: <state_dir>/pid, locked while it runs;
// <state_dir>/endpoint, present while it is ready; and <state_dir>/metrics if it serves metrics. A
// clean stop removes them.
#ifndef MCCS_BASE_STATE_DIRECTORY_H_
#define MCCS_BASE_STATE_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// LIFETIME: the destructor removes the files.
class StateDirectory {
 public:
  // Creates the directory if needed and writes the pid. kAlreadyExists: another running `program`
  // uses it; other errors name the file.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Claim(const std::string& path,
                                                               const std::string& program);
  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;

  // Announces that the program is ready at `endpoint`. The file is replaced atomically.
  absl::Status Publish(const std::string& endpoint) const { return Write("endpoint", endpoint); }
  // Announces the metrics endpoint. Call it before Publish, so that readers of one see the other.
  absl::Status PublishMetrics(const std::string& endpoint) const {
    return Write("metrics", endpoint);
  }

 private:
  StateDirectory(const std::string& path, UniqueFd pid) : path_(path), pid_(std::move(pid)) {}

  absl::Status Write(const std::string& name, const std::string& line) const;

  const std::string path_;
  const UniqueFd pid_;
};

}  // namespace mccs

#endif  // MCCS_BASE_STATE_DIRECTORY_H_
