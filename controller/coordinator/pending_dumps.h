// Operators' requests to daemons that are not answered yet. Has no network and no clock.
//
//   Add ──► open ──Handle──► answered ──TakeAnswers──► (removed)
//             └──OnHostLost, Expire──► answered with an error
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_COORDINATOR_PENDING_DUMPS_H_
#define MCCS_CONTROLLER_COORDINATOR_PENDING_DUMPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/state/registry.h"
#include "proto/daemon_state.pb.h"

namespace mccs {

struct StateAnswer {
  uint64_t request_id = 0;
  absl::StatusOr<state::Daemon> state;
};

class PendingDumps {
 public:
  // Timeout of a request.
  static constexpr int64_t kTimeoutNs = 3 * kNsPerSec;
  // Limit of open requests per daemon.
  static constexpr size_t kMaxOpenPerHost = 4;

  // Returns the number of a new request to `host`. kNotFound: unknown host, with known names;
  // kFailedPrecondition: it is not connected, with the cause; kResourceExhausted: too many requests.
  absl::StatusOr<uint64_t> Add(const Registry& registry, const std::string& host, MonotonicNs now);
  // Ignores answers from other hosts.
  void Handle(const std::string& host, uint64_t request_id, const state::Daemon& state);
  void OnHostLost(const std::string& host, const std::string& why);
  void Expire(MonotonicNs now);

  std::vector<StateAnswer> TakeAnswers() { return std::exchange(answers_, {}); }

 private:
  struct Open {
    std::string host;
    MonotonicNs until = 0;
  };

  std::map<uint64_t, Open> open_;
  std::vector<StateAnswer> answers_;
  uint64_t last_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_PENDING_DUMPS_H_
