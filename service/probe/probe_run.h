// Finds the ways of some flows: which packet to send when, what answers mean, and when enough is
// enough. No sockets, no threads, no clock.
//
// Each flow has a slot for each switch on its way:
//
//   open ──Hear──► answered
//    └─ kAttempts packets, each waited for longer than the one before ──► silent
//
// Packets leave kGapNs apart at least, so that neither the fabric nor the switches' own processors
// notice. OWNER: a prober. THREAD: its owner's.
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
  // For the first packet; for each further one twice as long: 1.5 s in all.
  static constexpr int64_t kPatienceNs = 100 * kNsPerMs;

  // REQUIRES: of each task, 1 to kMaxSwitches switches.
  ProbeRun(const std::vector<ProbeTask>& tasks, Random* random);

  // What is to be sent now.
  std::optional<ProbePacket> Next(MonotonicNs now);
  // When Next() may have another one, or all is done. REQUIRES: it had none now, and not done.
  MonotonicNs Deadline(MonotonicNs now) const;
  // Answers to others' packets are nothing, and so are those to packets that were not sent.
  void Hear(const ProbeAnswer& answer);
  // Packets of this flow cannot be sent.
  void GiveUp(const FiveTuple& flow, const std::string& why);
  bool IsDone(MonotonicNs now) const;

  // By task. REQUIRES: done.
  std::vector<ProbeOutcome> Outcomes() const;

 private:
  struct Slot {
    size_t task = 0;
    uint8_t ttl = 0;
    uint32_t token = 0;
    int sent = 0;
    MonotonicNs due = 0;  // the next packet; after the last one: the end of waiting
    uint32_t answered_by = 0;
    bool given_up = false;

    bool IsOpen() const { return answered_by == 0 && !given_up; }
  };

  static bool Waits(const Slot& slot, MonotonicNs now) {
    return slot.IsOpen() && (slot.sent < kAttempts || slot.due > now);
  }

  const std::vector<ProbeTask> tasks_;
  std::vector<std::string> why_not_;  // by task
  std::vector<Slot> slots_;           // by task, then by switch
  absl::flat_hash_map<uint32_t, size_t> by_token_;
  size_t cursor_ = 0;
  MonotonicNs next_packet_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_PROBE_RUN_H_
