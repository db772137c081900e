// Writes lines to a file descriptor from a thread of its own, so that a logging thread never waits
// for a disk or for the reader of a pipe. Lines wait in a queue of limited size. If the queue is
// full, new lines are dropped. A notice with their number follows the queued lines as soon as the
// descriptor accepts data again.
//
// THREAD: any.
#ifndef MCCS_BASE_LOG_WRITER_H_
#define MCCS_BASE_LOG_WRITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace mccs {

class LogWriter {
 public:
  struct Options {
    int fd = -1;  // not owned; open until the process ends
    // Of the queue. As much again may be in the hands of the thread.
    size_t max_queued_bytes = size_t{1} << 20;
    // Limits the wait of the destructor.
    std::chrono::milliseconds closing_timeout{1000};
    // Returns the notice that reports `lines` dropped lines, with its newline. Called by the
    // thread.
    std::function<std::string(uint64_t lines)> describe_dropped;
  };

  explicit LogWriter(Options options);
  // Writes what is queued. After the timeout the thread is left behind, blocked, until the process
  // ends.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Queues `line`, which ends with a newline, or drops it. Does not wait for the descriptor.
  void Append(std::string_view line);
  // Waits until all lines appended before are written or dropped. Returns false after `timeout`.
  bool Flush(std::chrono::milliseconds timeout);
  // Number of lines dropped so far: the queue was full, or the descriptor reported an error.
  uint64_t dropped() const;

 private:
  struct State;

  static void Run(const std::shared_ptr<State>& state);

  // Shared with the thread, which may outlive this object.
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_BASE_LOG_WRITER_H_
