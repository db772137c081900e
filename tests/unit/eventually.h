// Waits for an effect of another thread or process, for which no clock of a test can be advanced.
//
// The only place of the unit tests that sleeps: it polls, because such effects (a process that
// ends, a message that arrives over loopback) have no event for which a test could wait.
#ifndef MCCS_TESTS_UNIT_EVENTUALLY_H_
#define MCCS_TESTS_UNIT_EVENTUALLY_H_

#include <chrono>
#include <thread>

namespace mccs {

// Generous: it only limits the time of tests that fail.
inline constexpr auto kEventuallyTimeout = std::chrono::seconds(20);

// Returns true as soon as the condition is true; false if it is not within kEventuallyTimeout.
template <typename Condition>
bool Eventually(const Condition& holds) {
  const auto until = std::chrono::steady_clock::now() + kEventuallyTimeout;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_EVENTUALLY_H_
