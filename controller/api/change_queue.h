// Runs the operators' changes, and their dry runs, on a thread of their own. To read and plan one
// may take seconds. gRPC has few threads, and they also serve the daemons' heartbeats.
//
// The operators take turns, so that one with many changes does not delay another by more than one.
//
// THREAD: any.
#ifndef MCCS_CONTROLLER_API_CHANGE_QUEUE_H_
#define MCCS_CONTROLLER_API_CHANGE_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"

namespace mccs {

class ChangeQueue {
 public:
  static constexpr size_t kMaxOfOneOperator = 8;
  static constexpr size_t kMaxWaiting = 256;

  // `runs`: false: the queue ends, and the change must only answer its caller.
  using Change = std::function<void(bool runs)>;

  ChangeQueue();
  ~ChangeQueue();  // Stop()

  // Runs `change` once, later. kResourceExhausted: too many wait, or too many of `user`; it is not
  // run.
  absl::Status Add(const std::string& user, Change change);

  // Waits for the change that runs, ends the others, and those that are added later.
  void Stop();

 private:
  void Run();
  // Of the operator whose turn it is. REQUIRES: mutex_ is held, and there is one.
  Change TakeNext();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  size_t size_ = 0;
  std::map<std::string, std::deque<Change>> waiting_;  // by operator; none is empty
  std::string last_;                                   // the operator who had the last turn
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_CHANGE_QUEUE_H_
