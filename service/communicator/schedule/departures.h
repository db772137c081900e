// Ranks that have left a running communicator, and the effect on the calls of the others.
//
// A departure records the last collective of the rank and how many messages it posted to and for
// each other rank. Calls within these numbers complete; the first call beyond them fails the
// communicator. If the rank died, it fails at once. If its program called Destroy or Abort, the
// call first waits for a while, as in NCCL, so that the program's watchdog (PyTorch's) finds it
// blocked, writes its record and acts.
//
// OWNER: the Communicator. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_DEPARTURES_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_DEPARTURES_H_

#include <algorithm>
#include <cstdint>
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
#include "service/communicator/schedule/operation_loop.h"
#include "service/messages/message_loop.h"

namespace mccs {

struct Departure {
  Rank rank;
  uint64_t after = 0;  // number of its last collective
  std::string why;
  std::vector<MessageCount> messages;
  bool by_call = false;
};

peer::Message ToMessage(const Departure& departure);
// Converts a peer's message; keeps only the counts for `locals`, the ranks of this host.
Departure DepartureFrom(const peer::Departed& departed, std::span<const Rank> locals);
// kDataLoss if the message is invalid: it counts messages of unknown ranks or of too many ranks, or
// names an operation out of reach of a host that has started `here`.
absl::Status CheckDeparture(const peer::Departed& departed, int ranks, uint64_t here);

class Departures {
 public:
  // How long a call waits for a rank that left by Destroy or Abort.
  static constexpr int64_t kDepartureTimeoutNs = 30 * kNsPerSec;

  // How long ranks must be idle before a death is reported to them. Their programs may still be
  // about to see that their last call succeeded. A watchdog that sees the error first (PyTorch's
  // polls every 100 ms) would end a process although all its work is done.
  static constexpr int64_t kIdleBeforeReportNs = 300 * kNsPerMs;

  // At most one for each rank.
  void Add(Departure departure);
  bool empty() const { return departures_.empty(); }
  bool Has(Rank rank) const { return by_rank_.contains(rank); }
  // The last collective that any of `ranks` took part in; nothing while one of them has not left.
  std::optional<uint64_t> LastOf(std::span<const Rank> ranks) const;

  // kUnavailable, with the call and the departed rank, if a local rank has waited long enough for a
  // departed one. Looks at the departed ranks only if calls or departures have changed since.
  absl::Status Check(const OperationLoop& operations, const MessageLoop& messages, MonotonicNs now);
  // kUnavailable, once, for the first death, when the local ranks have been idle for
  // kIdleBeforeReportNs since.
  absl::Status TakeDeath(bool idle, MonotonicNs now);
  // When Check or TakeDeath will report without further events.
  MonotonicNs NextDeadline() const { return std::min(fails_at_, report_at_); }

  // How often Check has looked at a departed rank, and the cost (turn_cost.h) of that.
  uint64_t checked_ranks() const { return checked_ranks_; }
  int64_t cost() const { return static_cast<int64_t>(checked_ranks_) * kCostPerCheckedRank; }

 private:
  // About 0.1 µs.
  static constexpr int64_t kCostPerCheckedRank = 1 << 10;

  // The state that decides which calls wait for departed ranks.
  struct Seen {
    size_t departures = 0;
    std::optional<uint64_t> operation;  // in which local ranks wait
    std::optional<uint64_t> messages;   // MessageLoop::changes(), if any message is open
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  // A call that waits for a departed rank.
  struct CallInVain {
    absl::Status why;
    bool by_call = false;
  };
  std::optional<CallInVain> FindCallInVain(const MessageLoop& messages);

  std::vector<Departure> departures_;
  absl::flat_hash_map<Rank, size_t> by_rank_;  // index into departures_

  Seen seen_;                          // at the last search
  std::optional<CallInVain> in_vain_;  // that it found
  uint64_t checked_ranks_ = 0;
  MonotonicNs fails_at_ = kNever;  // a call that waits for a rank that left by a call
  absl::Status death_;             // the first one, until reported
  bool death_seen_ = false;
  MonotonicNs report_at_ = kNever;  // of death_, while the local ranks stay idle
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_DEPARTURES_H_
