// Questions of operators to daemons that are not answered yet. No network, no clock.
//
//   Ask ──► open ──Hear──► answered ──TakeAnswers──► (gone)
//             └──Lost, Expire──► answered with why not
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_QUESTIONS_H_
#define MCCS_CONTROLLER_QUESTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/registry.h"
#include "proto/daemon_state.pb.h"

namespace mccs {

struct StateAnswer {
  uint64_t question = 0;
  absl::StatusOr<state::Daemon> state;
};

class Questions {
 public:
  // How long a daemon may take.
  static constexpr int64_t kPatienceNs = 3 * kNsPerSec;
  // To one daemon at a time.
  static constexpr size_t kMaxOpenPerHost = 4;

  // The number of a question to `host`. kNotFound: no such host, with the names of others;
  // kFailedPrecondition: it is not connected, and why; kResourceExhausted.
  absl::StatusOr<uint64_t> Ask(const Registry& registry, const std::string& host, MonotonicNs now);
  // Only from whom it was asked.
  void Hear(const std::string& host, uint64_t question, const state::Daemon& state);
  void Lost(const std::string& host, const std::string& why);
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

#endif  // MCCS_CONTROLLER_QUESTIONS_H_
