// Finds the paths of some flows: decides which packet to send when, matches answers, and detects
// the end. No sockets, no threads, no clock.
//
// Each flow has a slot for each switch on its path:
//
//   open ──OnAnswer──► answered
//    └─ kAttempts packets, each with a longer timeout than the one before ──► silent
//
// Packets are at least kGapNs apart, so that they load neither the fabric nor the switches' own
// processors. OWNER: a prober. THREAD: its owner's.
#ifndef MCCS_SERVICE_PROBE_PROBE_RUN_H_
#define MCCS_SERVICE_PROBE_PROBE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/random.h"
#include "service/probe/path_prober.h"
#include "service/probe/probe_packet.h"

namespace mccs {

class ProbeRun {
 public:
  static constexpr int kAttempts = 4;
  static constexpr int64_t kGapNs = kNsPerMs;
  // Timeout of the first packet; doubled for each further one: 1.5 s in all.
  static constexpr int64_t kFirstTimeoutNs = 100 * kNsPerMs;

  // REQUIRES: each task has 1 to kMaxSwitches switches.
  ProbeRun(const std::vector<ProbeTask>& tasks, Random* random);

  // The packet to send now.
  std::optional<ProbePacket> Next(MonotonicNs now);
  // When to call Next() again. REQUIRES: Next() returned nothing, and not done.
  MonotonicNs Deadline(MonotonicNs now) const;
  // Ignores answers to other packets.
  void OnAnswer(const ProbeAnswer& answer);
  // Packets of this flow cannot be sent.
  void FailFlow(const FiveTuple& flow, const std::string& why);
  bool IsDone(MonotonicNs now) const;

  // By task. REQUIRES: IsDone.
  std::vector<ProbeOutcome> Outcomes() const;

 private:
  struct Slot {
    size_t task = 0;
    uint8_t ttl = 0;
    uint32_t token = 0;
    int sent = 0;
    MonotonicNs due = 0;  // of the next packet; after the last one: the end of the timeout
    uint32_t answered_by = 0;
    bool failed = false;

    bool IsOpen() const { return answered_by == 0 && !failed; }
  };

  static bool IsPending(const Slot& slot, MonotonicNs now) {
    return slot.IsOpen() && (slot.sent < kAttempts || slot.due > now);
  }

  const std::vector<ProbeTask> tasks_;
  std::vector<std::string> errors_;  // by task
  std::vector<Slot> slots_;          // by task, then by switch
  absl::flat_hash_map<uint32_t, size_t> by_token_;
  size_t cursor_ = 0;
  MonotonicNs next_packet_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_PROBE_RUN_H_
