#include "base/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/blocked_signals.h"

namespace mccs {
namespace {

// Other processes may write to the same pipe. Up to PIPE_BUF bytes are written as a unit.
size_t LengthOfUnit(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text.size();
  const size_t newline = text.rfind('\n', PIPE_BUF - 1);
  return newline == std::string_view::npos ? PIPE_BUF : newline + 1;
}

// Returns the number of lines that could not be written.
uint64_t Write(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), LengthOfUnit(text));
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // another user of the open file has made it non-blocking
      pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return static_cast<uint64_t>(std::ranges::count(text, '\n'));
    }
  }
  return 0;
}

}  // namespace

struct LogWriter::State {
  explicit State(Options own) : options(std::move(own)) {}

  const Options options;
  std::atomic<uint64_t> dropped = 0;

  std::mutex mutex;  // held briefly, never during a write
  std::condition_variable appended;
  std::condition_variable progress;
  std::string queue;
  uint64_t lost = 0;  // dropped lines that no notice has reported
  uint64_t last_appended = 0;
  uint64_t last_finished = 0;  // written or dropped, as all before
  bool closing = false;
  bool ended = false;
};

LogWriter::LogWriter(Options options) : state_(std::make_shared<State>(std::move(options))) {
  // SIGPIPE stays pending too: the write then fails.
  const BlockedSignals blocked;
  thread_ = std::thread([state = state_] { Run(state); });
}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->appended.notify_one();
  const bool ended = state_->progress.wait_for(lock, state_->options.closing_timeout,
                                               [this] { return state_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void LogWriter::Append(std::string_view line) {
  const std::lock_guard lock(state_->mutex);
  // While lines are missing at the end of the queue, even a short one may not follow them: the
  // notice comes first.
  const size_t bytes = state_->queue.size() + line.size();
  if (state_->lost > 0 || (!state_->queue.empty() && bytes > state_->options.max_queued_bytes)) {
    ++state_->lost;
    ++state_->dropped;
    return;
  }
  state_->queue.append(line);
  ++state_->last_appended;
  state_->appended.notify_one();
}

bool LogWriter::Flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->progress.wait_for(lock, timeout, [this, last = state_->last_appended] {
    return state_->last_finished >= last;
  });
}

uint64_t LogWriter::dropped() const { return state_->dropped; }

void LogWriter::Run(const std::shared_ptr<State>& state) {
  std::string text;
  uint64_t unwritten = 0;  // lines that the descriptor has rejected since the last notice
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->appended.wait(lock, [&] { return !state->queue.empty() || state->closing; });
    if (state->queue.empty()) break;
    text.swap(state->queue);
    const uint64_t last = state->last_appended;
    const uint64_t missing = unwritten + std::exchange(state->lost, 0);
    lock.unlock();
    if (missing > 0) text += state->options.describe_dropped(missing);
    const uint64_t rejected = Write(state->options.fd, text);
    unwritten = 0;
    if (rejected > 0) {
      const uint64_t lines = rejected - (missing > 0 ? 1 : 0);  // without the notice
      state->dropped += lines;
      unwritten = missing + lines;
    }
    text.clear();
    lock.lock();
    state->last_finished = last;
    state->progress.notify_all();
  }
  state->ended = true;
  state->progress.notify_all();
}

}  // namespace mccs
