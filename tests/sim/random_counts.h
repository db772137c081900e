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
  // Lies: what hostile parties did (liar.h).
  kLiarCame,
  kLiarFormed,          // its communicator stood on some daemon
  kLiarOperationDone,   // a call of its processes completed
  kLiarWasRefused,      // an init of its processes was answered with an error
  kToldOtherSize,       // its processes told one size, its rendezvous another
  kToldOtherRank,
  kCalledOddRoot,
  kCalledOddPeer,
  kCalledOddRange,
  kTookBackInUse,       // a buffer, while calls may use it
  kOtherControlCall,    // split, shrink, grow, revoke, suspend, abort, destroy
  kProcessLeftAmid,
  kRosterOfOtherSize,
  kRosterNamesDaemonTwice,
  kRosterOfOtherTenant,
  kRosterOfOtherName,
  kRosterWithoutHosts,
  kRosterOfManyHosts,
  kRosterNamesStranger,  // a daemon that has no rank of it
  kRosterSpoiled,
  kJoinSpoiled,
  kStrategySpoiled,
  kStrategyOddAddress,
  kChangeProposed,
  kChangeOutOfOrder,
  kAnswerSpoiled,
  kOrderImposed,
  kTableSpoiled,
  kMessageInvented,
  kMessageSpoiled,
  kMessageTooEarly,
  kLaneOdd,
  kSliceSpoiled,
  kTagInvented,
  kAckSpoiled,
  kLinkCut,
  kHalfOpen,
  kFlood,
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
    "hostile parties",
    "hostile communicators formed",
    "hostile calls done",
    "hostile inits refused",
    "ranks that told another size",
    "ranks that told another number",
    "odd roots",
    "odd peers",
    "odd ranges",
    "buffers taken back in use",
    "other hostile control calls",
    "hostile processes that left amid work",
    "rosters of another size",
    "rosters that name a daemon twice",
    "rosters of another tenant",
    "rosters of another communicator",
    "rosters without hosts",
    "rosters of 100,000 hosts",
    "rosters that name a stranger",
    "rosters spoiled otherwise",
    "joins spoiled",
    "strategies spoiled",
    "strategies with odd addresses",
    "steps of hostile changes",
    "steps of hostile changes out of order",
    "answers spoiled",
    "orders imposed",
    "split tables spoiled",
    "messages invented",
    "messages spoiled",
    "messages too early",
    "odd lanes",
    "slices spoiled",
    "tags invented",
    "acknowledgements spoiled",
    "hostile links cut",
    "half-open connections",
    "floods",
};
inline constexpr size_t kRandomEvents = std::size(kRandomEventNames);
static_assert(kRandomEvents == static_cast<size_t>(RandomEvent::kFlood) + 1);
// From here on they are lies.
inline constexpr size_t kFirstLie = static_cast<size_t>(RandomEvent::kLiarCame);

struct RandomCounts {
  std::array<uint64_t, kRandomEvents> of{};

  void Add(RandomEvent event, uint64_t times = 1) { of[static_cast<size_t>(event)] += times; }
  void operator+=(const RandomCounts& other) {
    for (size_t e = 0; e < kRandomEvents; ++e) of[e] += other.of[e];
  }
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_COUNTS_H_
