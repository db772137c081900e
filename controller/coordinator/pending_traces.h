// Operators' traces of communicators that some daemons have not sent yet. Has no network and no
// clock.
//
//   Add ──► open ──every host has a result, or an error──► answered ──TakeAnswers──► (removed)
//             └──Cancel, Stop──► answered with an error
//
// A host's error (it is lost, or does not answer) replaces only its own part of the answer.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_COORDINATOR_PENDING_TRACES_H_
#define MCCS_CONTROLLER_COORDINATOR_PENDING_TRACES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "controller/measurement/host_clocks.h"
#include "controller/state/registry.h"
#include "proto/operation_trace.pb.h"
#include "proto/operator.pb.h"

namespace mccs {

// Called once, with the traces of all hosts or an error.
using TraceCallback = std::function<void(const absl::StatusOr<control::v1::TraceReply>&)>;

struct TraceAnswer {
  TraceCallback callback;
  absl::StatusOr<control::v1::TraceReply> reply;
};

class PendingTraces {
 public:
  // `first_request_id`: CoordinatorOptions::first_request_id.
  explicit PendingTraces(uint64_t first_request_id) : next_(first_request_id) {}

  static constexpr uint32_t kMaxOperations = 1000;
  // Of all hosts together, so that the answer has some ten MiB at most.
  static constexpr uint64_t kMaxTotalOperations = 200'000;
  // Timeout of a request. A daemon ends its trace after 10 s.
  static constexpr int64_t kTimeoutNs = 13 * kNsPerSec;
  static constexpr size_t kMaxOpen = 4;

  struct Started {
    uint64_t request_id = 0;
    std::vector<AgentKey> agents;  // of the hosts to ask
  };
  // The callback is not called after an error. kInvalidArgument: invalid number of operations;
  // kFailedPrecondition: the communicator is already traced, or after Stop; kResourceExhausted: too
  // many requests. REQUIRES: the registry has `id`.
  absl::StatusOr<Started> Add(const Registry& registry, CommId id, uint32_t operations,
                              MonotonicNs now, TraceCallback callback);
  // Ignores traces from other hosts. `clock`: of the host; nothing if it is not known yet.
  void Handle(const std::string& host, uint64_t request_id, trace::Host trace,
              const std::optional<ClockReading>& clock);
  void OnHostLost(const std::string& host, const std::string& why);
  void Expire(MonotonicNs now);
  // The operator has left. Returns the agents of the hosts whose traces still run.
  std::vector<AgentKey> Cancel(uint64_t request_id);
  // Answers all open and all later requests with an error: the controller stops.
  void Stop();

  // The caller runs the callbacks, without a lock.
  std::vector<TraceAnswer> TakeAnswers() { return std::exchange(answers_, {}); }

 private:
  struct Open {
    CommId id;
    MonotonicNs until = 0;
    TraceCallback callback;
    control::v1::TraceReply reply;            // with an entry for every host
    std::map<std::string, AgentKey> awaited;  // hosts without a result
  };
  using OpenTraces = std::map<uint64_t, Open>;

  static trace::Host* EntryOf(const std::string& host, Open* open);
  // Ends the wait for each host for which `error_of` returns an error, and answers requests that
  // are complete.
  void EndAwaits(
      absl::FunctionRef<std::string(const std::string& host, const Open& open)> error_of);
  // Answers the request if no host is awaited. Returns true if so; then the caller erases it.
  bool AnswerIfComplete(Open* open);

  OpenTraces open_;
  std::vector<TraceAnswer> answers_;
  uint64_t next_;  // number of the next request
  bool stopped_ = false;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_PENDING_TRACES_H_
