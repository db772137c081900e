// Ranks that have left a running communicator, and what that means for the calls of the others.
//
// A departure has numbers: the last collective that the rank took part in, and how many messages it
// posted to and for each other rank. What lies within them completes; the first call beyond fails
// the communicator: at once where the rank died. Where its program has called Destroy or Abort, the
// call waits for a while first, as it would in NCCL: watchdogs of the program (PyTorch's) shall
// find it blocked, write its record and act.
//
// OWNER: the Communicator. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_DEPARTURES_H_
#define MCCS_SERVICE_COMMUNICATOR_DEPARTURES_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "service/communicator/operation_loop.h"
#include "service/messages/message_loop.h"

namespace mccs {

struct Departure {
  Rank rank;
  uint64_t after = 0;  // the number of its last collective
  std::string why;
  std::vector<MessageCount> messages;
  bool in_order = false;
};

peer::Message ToMessage(const Departure& departure);
// What a peer says of a rank, as far as it concerns `locals`, the ranks of this host.
Departure DepartureFrom(const peer::Departed& departed, std::span<const Rank> locals);
// kDataLoss when it cannot be: it counts messages of ranks that are none of `ranks`, or more than
// there are; or names an operation out of reach of a host that has started `here`.
absl::Status CheckDeparture(const peer::Departed& departed, int ranks, uint64_t here);

class Departures {
 public:
  // How long a call waits for a rank that has left by a call of its own.
  static constexpr int64_t kPatienceNs = 30 * kNsPerSec;

  // How long ranks are idle before they are told of a death. Their programs may still be about to
  // find that their last call has succeeded: a watchdog that sees an error first (PyTorch's looks
  // every 100 ms) would end a process whose peers had done all their work and exited.
  static constexpr int64_t kIdleBeforeReportNs = 300 * kNsPerMs;

  void Add(Departure departure);
  bool empty() const { return departures_.empty(); }
  bool Has(Rank rank) const { return by_rank_.contains(rank); }
  // The last collective that any of `ranks` took part in; nothing as long as one of them is here.
  std::optional<uint64_t> LastOf(std::span<const Rank> ranks) const;

  // kUnavailable, with the call and the rank that left, when a local rank waits for one that will
  // not come, and has waited long enough.
  absl::Status Check(const OperationLoop& operations, const MessageLoop& messages, MonotonicNs now);
  // kUnavailable, with the rank, once for the first death, when the local ranks have been idle for
  // kIdleBeforeReportNs since.
  absl::Status TakeDeath(bool idle, MonotonicNs now);
  // When Check or TakeDeath will report, though nothing happens.
  MonotonicNs NextDeadline() const { return std::min(fails_at_, report_at_); }

 private:
  std::vector<Departure> departures_;
  absl::flat_hash_map<Rank, size_t> by_rank_;  // index into departures_
  static constexpr MonotonicNs kNever = std::numeric_limits<MonotonicNs>::max();

  MonotonicNs fails_at_ = kNever;  // of a call that waits for one who left in order
  absl::Status death_;             // the first, until it is reported
  bool death_seen_ = false;
  MonotonicNs report_at_ = kNever;  // of death_, as long as the local ranks stay idle
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_DEPARTURES_H_
