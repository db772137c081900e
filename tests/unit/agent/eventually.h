// Polls for effects of other threads: agents and their controllers communicate over gRPC on
// loopback.
#ifndef MCCS_TESTS_UNIT_AGENT_EVENTUALLY_H_
#define MCCS_TESTS_UNIT_AGENT_EVENTUALLY_H_

#include <chrono>
#include <functional>
#include <thread>

namespace mccs {

inline constexpr auto kPatience = std::chrono::seconds(8);

// Returns true if the condition becomes true within kPatience.
inline bool Eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_AGENT_EVENTUALLY_H_
