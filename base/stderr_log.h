// The log of a program: lines on stderr with time, level and the program's name. A thread writes
// them (base/log_writer.h); the destructor and a failed MCCS_CHECK wait for it, one second at most.
// A message is one line of valid UTF-8: its line breaks are written as "\n", other control
// characters as '?', and a long one is cut.
//
// One at a time per process. THREAD: any.
#ifndef MCCS_BASE_STDERR_LOG_H_
#define MCCS_BASE_STDERR_LOG_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/log_writer.h"

namespace mccs {

// "debug", as ParseLogLevel has it.
const char* LogLevelName(LogLevel level);

class StderrLog final : public Log {
 public:
  StderrLog(const std::string& program, LogLevel lowest);
  ~StderrLog() override;

  // Lines below this level are omitted from now on.
  void SetLowest(LogLevel lowest) { lowest_.store(lowest, std::memory_order_relaxed); }
  uint64_t dropped() const override { return writer_.dropped(); }

 protected:
  bool Enabled(LogLevel level) const override {
    return level >= lowest_.load(std::memory_order_relaxed);
  }
  void Write(LogLevel level, std::string_view line) override;

 private:
  class LineFormat;

  // The process is about to abort.
  void WriteLast(std::string_view line);

  std::atomic<LogLevel> lowest_;  // protects no other data
  const std::shared_ptr<LineFormat> format_;
  LogWriter writer_;
};

}  // namespace mccs

#endif  // MCCS_BASE_STDERR_LOG_H_
