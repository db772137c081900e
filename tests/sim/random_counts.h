// Counts of the events in random worlds, so that a kind of event that never happens is detected.
#ifndef MCCS_TESTS_SIM_RANDOM_COUNTS_H_
#define MCCS_TESTS_SIM_RANDOM_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace mccs {

// The kinds of events, with their names in the statistics.
#define MCCS_RANDOM_EVENTS(EVENT)                                                                 \
  EVENT(kOperationChecked, "operations checked")                                                  \
  EVENT(kStrategyChanged, "strategy changes") /* counted per communicator */                      \
  EVENT(kLaneCut, "lanes cut")                                                                    \
  EVENT(kHostsPartitioned, "partitions")                                                          \
  EVENT(kStreamCut, "agent streams cut")                                                          \
  EVENT(kControllerKilled, "controllers killed")                                                  \
  EVENT(kControllerRestarted, "controllers restarted")                                            \
  EVENT(kDaemonKilled, "daemons killed")                                                          \
  EVENT(kDaemonRestarted, "daemons restarted")                                                    \
  EVENT(kJobOnRestartedDaemon, "jobs on restarted daemons")                                       \
  EVENT(kProcessKilled, "processes killed")                                                       \
  EVENT(kJobLost, "jobs lost") /* it lost a rank; all other ranks got an error in time */         \
  EVENT(kJobRejected, "jobs rejected for a quota")                                                \
  EVENT(kRequestRejected, "operator requests rejected") /* of an operator */                      \
  EVENT(kTenantChanged, "Tenants changed")                                                        \
  EVENT(kDrained, "drains")                                                                       \
  EVENT(kUndrained, "undrains")                                                                   \
  EVENT(kLocalityRing, "policies locality_ring")                                                  \
  EVENT(kRankOrder, "policies rank_order")                                                        \
  EVENT(kFairFlow, "policies fair_flow")                                                          \
  EVENT(kPriorityFlow, "policies priority_flow")                                                  \
  EVENT(kTimeWindows, "policies time_windows")                                                    \
  EVENT(kShares, "policies shares")                                                               \
  EVENT(kAlgorithm, "policies algorithm")                                                         \
  /* Faults (random_faults.h). */                                                                 \
  EVENT(kDescriptorsExhausted, "hosts out of descriptors")                                        \
  EVENT(kMemoryExhausted, "hosts out of memory")                                                  \
  EVENT(kStoreDiskFull, "full disks of the controller")                                           \
  EVENT(kRequestRejectedByFullDisk, "requests rejected by a full disk")                           \
  EVENT(kStoreSyncFailed, "disks of the controller that fail to sync")                            \
  EVENT(kRequestRejectedByFailedSync, "requests rejected by a failed sync")                       \
  EVENT(kControllerDiedInCommit, "controllers dead in a commit")                                  \
  EVENT(kStoreWriteTorn, "torn writes of the controller's store")                                 \
  EVENT(kHostDiskFull, "full disks of hosts")                                                     \
  EVENT(kHostSyncFailed, "disks of hosts that fail to sync")                                      \
  EVENT(kTenantsNotKept, "tables of Tenants not kept")                                            \
  EVENT(kDaemonDiedInWrite, "daemons dead in a write of their table")                             \
  EVENT(kOldTenantsFound, "old tables found after that")                                          \
  EVENT(kNewTenantsFound, "new tables found after that")                                          \
  EVENT(kClockJumped, "clock jumps")                                                              \
  EVENT(kWallClockSetBack, "times of day set back")                                               \
  EVENT(kWallClockSetForward, "times of day set forward")                                         \
  EVENT(kBriefOneWayPartition, "brief one-way partitions")                                        \
  EVENT(kOneWayPartition, "one-way partitions beyond the lanes' timeout")                         \
  EVENT(kPairCut, "pairs of hosts cut off from each other")                                       \
  EVENT(kJobRejectedByFault, "jobs rejected by a fault")                                          \
  EVENT(kJobFailedByFault, "jobs failed by a fault") /* all ranks got an error in time */         \
  EVENT(kJobAfterFault, "jobs after faults")         /* on hosts whose fault was over */          \
  /* Attacks: what hostile tenants did (hostile_tenant.h). */                                     \
  EVENT(kHostileTenantStarted, "hostile tenants")                                                 \
  EVENT(kPeerWithCertificate, "hostile daemons of the cluster")                                   \
  EVENT(kPeerWithoutCertificate, "hostile daemons without certificate")                           \
  EVENT(kPeerWithForeignCertificate, "hostile daemons with a foreign certificate")                \
  EVENT(kDialedWithoutCertificate, "connections without a certificate of the cluster")            \
  EVENT(kHostileCommunicatorFormed,                                                               \
        "hostile communicators formed") /* its communicator formed on some daemon */              \
  EVENT(kHostileCallDone,                                                                         \
        "hostile calls completed") /* a call of one of its processes completed */                 \
  EVENT(kHostileInitRejected,                                                                     \
        "hostile inits rejected") /* an init of one of its processes got an error */              \
  EVENT(kNamedOtherSize,                                                                          \
        "inits with another size") /* a process and its rendezvous named different sizes */       \
  EVENT(kNamedOtherRank, "inits with another rank")                                               \
  EVENT(kInvalidRoot, "invalid roots")                                                            \
  EVENT(kInvalidPeer, "invalid peers")                                                            \
  EVENT(kInvalidRange, "invalid ranges")                                                          \
  EVENT(kReleasedInUse, "buffers released in use") /* released a buffer that calls may use */     \
  EVENT(kOtherControlCall,                                                                        \
        "other hostile control calls") /* split, shrink, grow, revoke, suspend, abort, destroy */ \
  EVENT(kHostileProcessKilled, "hostile processes killed during work")                            \
  EVENT(kRosterOfOtherSize, "rosters of another size")                                            \
  EVENT(kRosterNamesDaemonTwice, "rosters that name a daemon twice")                              \
  EVENT(kRosterOfOtherTenant, "rosters of another tenant")                                        \
  EVENT(kRosterOfOtherCommunicator, "rosters of another communicator")                            \
  EVENT(kRosterWithoutHosts, "rosters without hosts")                                             \
  EVENT(kRosterOfManyHosts, "rosters of 100,000 hosts")                                           \
  EVENT(                                                                                          \
      kRosterNamesUninvolvedDaemon,                                                               \
      "rosters that name an uninvolved daemon") /* a daemon without a rank of the communicator */ \
  EVENT(kCorruptedRoster, "rosters corrupted otherwise")                                          \
  EVENT(kCorruptedJoin, "corrupted joins")                                                        \
  EVENT(kCorruptedStrategy, "corrupted strategies")                                               \
  EVENT(kStrategyWithInvalidAddress, "strategies with invalid addresses")                         \
  EVENT(kChangeProposed, "steps of hostile changes")                                              \
  EVENT(kChangeOutOfOrder, "steps of hostile changes out of order")                               \
  EVENT(kCorruptedAnswer, "corrupted answers")                                                    \
  EVENT(kOrderImposed, "operation orders imposed")                                                \
  EVENT(kCorruptedSplitTable, "corrupted split tables")                                           \
  EVENT(kRandomMessage, "random messages")                                                        \
  EVENT(kCorruptedMessage, "corrupted messages")                                                  \
  EVENT(kPrematureMessage, "premature messages")                                                  \
  EVENT(kInvalidLane, "invalid lanes")                                                            \
  EVENT(kCorruptedSlice, "corrupted slices")                                                      \
  EVENT(kRandomTag, "random tags")                                                                \
  EVENT(kCorruptedAck, "corrupted acknowledgements")                                              \
  EVENT(kLinkCut, "hostile links cut")                                                            \
  EVENT(kHalfOpen, "half-open connections")                                                       \
  EVENT(kFlood, "floods")

enum class RandomEvent : uint8_t {
#define EVENT(event, name) event,
  MCCS_RANDOM_EVENTS(EVENT)
#undef EVENT
};

inline constexpr const char* kRandomEventNames[] = {
#define EVENT(event, name) name,
    MCCS_RANDOM_EVENTS(EVENT)
#undef EVENT
};
inline constexpr size_t kRandomEvents = std::size(kRandomEventNames);
// Events from here on are faults, and attacks.
inline constexpr size_t kFirstFault = static_cast<size_t>(RandomEvent::kDescriptorsExhausted);
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
