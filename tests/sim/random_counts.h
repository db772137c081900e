// What happened in random worlds, so that a kind of event that never comes is noticed.
#ifndef MCCS_TESTS_SIM_RANDOM_COUNTS_H_
#define MCCS_TESTS_SIM_RANDOM_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace mccs {

enum class RandomEvent : uint8_t {
  kOperationChecked,
  kStrategyChanged,  // of one communicator
  kLaneCut,
  kHostsParted,
  kStreamCut,
  kControllerKilled,
  kControllerRestarted,
  kDaemonKilled,
  kDaemonRestarted,
  kJobOnRestartedDaemon,
  kProcessKilled,
  kJobLost,  // some rank was; all others had an error in time
  kJobRefused,
  kRequestRefused,  // of operators
  kTenantChanged,
  kDrained,
  kUndrained,
  kLocalityRing,
  kRankOrder,
  kFairFlow,
  kPriorityFlow,
  kTimeWindows,
  kShares,
  kAlgorithm,
};

inline constexpr const char* kRandomEventNames[] = {
    "operations checked",
    "changes of strategy",
    "lanes cut",
    "hosts parted",
    "agents' streams cut",
    "controllers killed",
    "controllers restarted",
    "daemons killed",
    "daemons restarted",
    "jobs on restarted daemons",
    "processes killed",
    "jobs lost",
    "jobs over a quota",
    "requests of operators refused",
    "Tenants changed",
    "drains",
    "undrains",
    "policies locality_ring",
    "policies rank_order",
    "policies fair_flow",
    "policies priority_flow",
    "policies time_windows",
    "policies shares",
    "policies algorithm",
};
inline constexpr size_t kRandomEvents = std::size(kRandomEventNames);
static_assert(kRandomEvents == static_cast<size_t>(RandomEvent::kAlgorithm) + 1);

struct RandomCounts {
  std::array<uint64_t, kRandomEvents> of{};

  void Add(RandomEvent event, uint64_t times = 1) { of[static_cast<size_t>(event)] += times; }
  void operator+=(const RandomCounts& other) {
    for (size_t e = 0; e < kRandomEvents; ++e) of[e] += other.of[e];
  }
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_COUNTS_H_
