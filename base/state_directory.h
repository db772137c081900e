// The files by which others find a running program: <state_dir>/pid, locked while it lives, and
// <state_dir>/endpoint, there while it is ready; with them <state_dir>/metrics where it serves
// some. All go with a clean stop.
#ifndef MCCS_BASE_STATE_DIRECTORY_H_
#define MCCS_BASE_STATE_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// LIFETIME: removes its files with the object.
class StateDirectory {
 public:
  // Makes the directory if need be and writes the pid. kAlreadyExists: another live `program` holds
  // it; other errors name the file.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Claim(const std::string& path,
                                                               const std::string& program);
  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;

  // The program is ready at `endpoint`. Readers see the file whole or not at all.
  absl::Status Publish(const std::string& endpoint) const { return Write("endpoint", endpoint); }
  // It serves its metrics at `endpoint`; before Publish, so that who sees the one sees the other.
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
