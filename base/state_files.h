// The files by which others find a running program: <state_dir>/endpoint and <state_dir>/pid, there
// while it is ready.
#ifndef MCCS_BASE_STATE_FILES_H_
#define MCCS_BASE_STATE_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs {

// LIFETIME: removes its files with the object. Moves, does not copy.
class StateFiles {
 public:
  StateFiles() = default;
  StateFiles(StateFiles&&) = default;
  StateFiles& operator=(StateFiles&&) = delete;
  ~StateFiles();

  // Makes `state_dir` where it is not there, and writes each (name, text) into it; a reader sees a
  // file whole or not at all. The error names the file.
  static absl::StatusOr<StateFiles> Write(
      const std::string& state_dir, const std::vector<std::pair<std::string, std::string>>& files);

 private:
  std::vector<std::string> paths_;
};

}  // namespace mccs

#endif  // MCCS_BASE_STATE_FILES_H_
