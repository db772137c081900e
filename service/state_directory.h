// The daemon's state directory: `pid`, locked while it lives, and `endpoint`, where peers reach it, from
// readiness on. Both go with a clean stop.
#ifndef MCCS_SERVICE_STATE_DIRECTORY_H_
#define MCCS_SERVICE_STATE_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "service/transport/network.h"

namespace mccs {

class StateDirectory {
 public:
  // Makes the directory if need be. kAlreadyExists: another live daemon holds it.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Claim(const std::string& path);
  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;

  absl::Status Publish(const Endpoint& endpoint) const;

 private:
  StateDirectory(const std::string& path, UniqueFd pid) : path_(path), pid_(std::move(pid)) {}

  const std::string path_;
  const UniqueFd pid_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_STATE_DIRECTORY_H_
