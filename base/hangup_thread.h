// A thread that calls a function for each SIGHUP, the signal to reload the configuration.
//
// OWNER: main.
#ifndef MCCS_BASE_HANGUP_THREAD_H_
#define MCCS_BASE_HANGUP_THREAD_H_

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

class HangupThread {
 public:
  // Blocks SIGHUP in this thread. Call before other threads start: they inherit that; in a thread
  // that does not block it, the signal ends the process.
  static void Block();

  // Calls `on_hangup` in a thread of its own for each signal from now on; several that arrive
  // together may be one. REQUIRES: Block. kUnavailable: the system has no descriptors left.
  static absl::StatusOr<std::unique_ptr<HangupThread>> Start(std::function<void()> on_hangup);
  // Waits for a call that runs.
  ~HangupThread();

 private:
  HangupThread(UniqueFd signals, UniqueFd stop, std::function<void()> on_hangup);
  void Run();

  const UniqueFd signals_, stop_;
  const std::function<void()> on_hangup_;
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_BASE_HANGUP_THREAD_H_
