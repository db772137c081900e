// A log that stores its lines, without their levels.
#ifndef MCCS_TESTS_UNIT_RECORDING_LOG_H_
#define MCCS_TESTS_UNIT_RECORDING_LOG_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace mccs {

// THREAD: one.
class RecordingLog final : public Log {
 public:
  std::vector<std::string> lines;
  // The number of lines that contain `text`.
  size_t Count(std::string_view text) const {
    return static_cast<size_t>(std::ranges::count_if(
        lines, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }
  bool Contains(std::string_view text) const { return Count(text) > 0; }

 protected:
  bool Enabled(LogLevel /*level*/) const override { return true; }
  void Write(LogLevel /*level*/, std::string_view line) override { lines.emplace_back(line); }
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_RECORDING_LOG_H_
