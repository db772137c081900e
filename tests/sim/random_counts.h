// Counts of the events in random worlds, so that a kind of event that never happens is detected.
#ifndef MCCS_TESTS_SIM_RANDOM_COUNTS_H_
#define MCCS_TESTS_SIM_RANDOM_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace mccs {

enum class RandomEvent : uint8_t {
  kOperationChecked,
  kStrategyChanged,  // counted per communicator
  kLaneCut,
  kHostsPartitioned,
  kStreamCut,
  kControllerKilled,
  kControllerRestarted,
  kDaemonKilled,
  kDaemonRestarted,
  kJobOnRestartedDaemon,
  kProcessKilled,
  kJobLost,  // it lost a rank; all other ranks got an error in time
  kJobRefused,
  kRequestRefused,  // of an operator
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
  // Attacks: what hostile tenants did (hostile_tenant.h).
  kHostileTenantStarted,
  kHostileCommunicatorFormed,  // its communicator formed on some daemon
  kHostileCallDone,            // a call of one of its processes completed
  kHostileInitRefused,         // an init of one of its processes got an error
  kNamedOtherSize,             // a process and its rendezvous named different sizes
  kNamedOtherRank,
  kInvalidRoot,
  kInvalidPeer,
  kInvalidRange,
  kReleasedInUse,     // released a buffer that calls may use
  kOtherControlCall,  // split, shrink, grow, revoke, suspend, abort, destroy
  kHostileProcessKilled,
  kRosterOfOtherSize,
  kRosterNamesDaemonTwice,
  kRosterOfOtherTenant,
  kRosterOfOtherCommunicator,
  kRosterWithoutHosts,
  kRosterOfManyHosts,
  kRosterNamesUninvolvedDaemon,  // a daemon without a rank of the communicator
  kCorruptedRoster,
  kCorruptedJoin,
  kCorruptedStrategy,
  kStrategyWithInvalidAddress,
  kChangeProposed,
  kChangeOutOfOrder,
  kCorruptedAnswer,
  kOrderImposed,
  kCorruptedSplitTable,
  kRandomMessage,
  kCorruptedMessage,
  kPrematureMessage,
  kInvalidLane,
  kCorruptedSlice,
  kRandomTag,
  kCorruptedAck,
  kLinkCut,
  kHalfOpen,
  kFlood,
};

inline constexpr const char* kRandomEventNames[] = {
    "operations checked",
    "strategy changes",
    "lanes cut",
    "partitions",
    "agent streams cut",
    "controllers killed",
    "controllers restarted",
    "daemons killed",
    "daemons restarted",
    "jobs on restarted daemons",
    "processes killed",
    "jobs lost",
    "jobs refused for a quota",
    "operator requests rejected",
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
    "hostile tenants",
    "hostile communicators formed",
    "hostile calls completed",
    "hostile inits refused",
    "inits with another size",
    "inits with another rank",
    "invalid roots",
    "invalid peers",
    "invalid ranges",
    "buffers released in use",
    "other hostile control calls",
    "hostile processes killed during work",
    "rosters of another size",
    "rosters that name a daemon twice",
    "rosters of another tenant",
    "rosters of another communicator",
    "rosters without hosts",
    "rosters of 100,000 hosts",
    "rosters that name an uninvolved daemon",
    "rosters corrupted otherwise",
    "corrupted joins",
    "corrupted strategies",
    "strategies with invalid addresses",
    "steps of hostile changes",
    "steps of hostile changes out of order",
    "corrupted answers",
    "operation orders imposed",
    "corrupted split tables",
    "random messages",
    "corrupted messages",
    "premature messages",
    "invalid lanes",
    "corrupted slices",
    "random tags",
    "corrupted acknowledgements",
    "hostile links cut",
    "half-open connections",
    "floods",
};
inline constexpr size_t kRandomEvents = std::size(kRandomEventNames);
static_assert(kRandomEvents == static_cast<size_t>(RandomEvent::kFlood) + 1);
// Events from here on are attacks.
inline constexpr size_t kFirstAttack = static_cast<size_t>(RandomEvent::kHostileTenantStarted);

struct RandomCounts {
  std::array<uint64_t, kRandomEvents> of{};

  void Add(RandomEvent event, uint64_t times = 1) { of[static_cast<size_t>(event)] += times; }
  void operator+=(const RandomCounts& other) {
    for (size_t e = 0; e < kRandomEvents; ++e) of[e] += other.of[e];
  }
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_COUNTS_H_
