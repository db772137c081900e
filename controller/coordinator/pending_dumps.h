// Operators' requests to daemons that are not answered yet. Has no network and no clock.
//
//   Add ──► open ──Handle──► answered ──TakeAnswers──► (removed)
//             └──OnHostLost, Expire, Stop──► answered with an error
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_COORDINATOR_PENDING_DUMPS_H_
#define MCCS_CONTROLLER_COORDINATOR_PENDING_DUMPS_H_

#include <cstdint>
#include <functional>
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

// Called once, with the daemon's state or an error.
using StateCallback = std::function<void(const absl::StatusOr<state::Daemon>&)>;

struct StateAnswer {
  StateCallback callback;
  absl::StatusOr<state::Daemon> state;
};

class PendingDumps {
 public:
  // `first_request_id`: CoordinatorOptions::first_request_id.
  explicit PendingDumps(uint64_t first_request_id) : next_(first_request_id) {}

  // Timeout of a request.
  static constexpr int64_t kTimeoutNs = 3 * kNsPerSec;
  // Limit of open requests per daemon.
  static constexpr size_t kMaxOpenPerHost = 4;

  // Returns the number of a new request to `host`. The callback is not called after an error.
  // kNotFound: unknown host, with known names; kFailedPrecondition: it is not connected, with the
  // cause, or after Stop; kResourceExhausted: too many requests.
  absl::StatusOr<uint64_t> Add(const Registry& registry, const std::string& host, MonotonicNs now,
                               StateCallback callback);
  // Ignores answers from other hosts.
  void Handle(const std::string& host, uint64_t request_id, const state::Daemon& state);
  void OnHostLost(const std::string& host, const std::string& why);
  void Expire(MonotonicNs now);
  // Answers all open and all later requests with an error: the controller stops.
  void Stop();

  // The caller runs the callbacks, without a lock.
  std::vector<StateAnswer> TakeAnswers() { return std::exchange(answers_, {}); }

 private:
  struct Open {
    std::string host;
    MonotonicNs until = 0;
    StateCallback callback;
  };

  std::map<uint64_t, Open> open_;
  std::vector<StateAnswer> answers_;
  uint64_t next_;  // number of the next request
  bool stopped_ = false;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_PENDING_DUMPS_H_
