// The line that a daemon logs when a communicator switches to a strategy: "communicator 3f2a…:
// switched to epoch 4 (strategy fair_flow), starting with operation #18".
#ifndef MCCS_TESTS_SIM_SWITCH_LOG_H_
#define MCCS_TESTS_SIM_SWITCH_LOG_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace mccs {

struct SwitchLine {
  std::string_view communicator;  // FormatCommId
  uint64_t epoch = 0;
  std::string_view operation;  // "#18"
};

// Empty for other lines. LIFETIME: refers to `line`.
inline std::optional<SwitchLine> ParseSwitchLine(std::string_view line) {
  constexpr std::string_view kCommunicator = "communicator ";
  constexpr std::string_view kEpoch = ": switched to epoch ";
  constexpr std::string_view kOperation = ", starting with operation ";
  const size_t epoch = line.find(kEpoch);
  const size_t operation = line.find(kOperation);
  const size_t communicator = line.rfind(kCommunicator, epoch);
  if (epoch == std::string_view::npos || operation == std::string_view::npos ||
      communicator == std::string_view::npos) {
    return std::nullopt;
  }
  SwitchLine found;
  const size_t id = communicator + kCommunicator.size();
  found.communicator = line.substr(id, epoch - id);
  const char* const number = line.data() + epoch + kEpoch.size();
  if (std::from_chars(number, line.data() + line.size(), found.epoch).ec != std::errc()) {
    return std::nullopt;
  }
  found.operation = line.substr(operation + kOperation.size());
  return found;
}

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SWITCH_LOG_H_
