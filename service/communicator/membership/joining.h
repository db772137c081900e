// The member's side of the rendezvous: registers this host's ranks there and waits for the roster.
//
// OWNER: a Communicator that is forming. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_JOINING_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_JOINING_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/membership/named_rendezvous.h"
#include "service/communicator/membership/tree_relay.h"

namespace mccs {

// When the log names missing ranks: first after this time, then at this interval.
inline constexpr int64_t kFirstMissingLogNs = 5 * kNsPerSec;
inline constexpr int64_t kMissingLogEveryNs = 60 * kNsPerSec;

// Redial interval for an id derived from NCCL_COMM_ID: rank 0's daemon may not listen at its
// address yet.
inline constexpr int64_t kMaxRedialIntervalNs = 100 * kNsPerMs;
// First redial interval for an id derived from a communicator: its address opens within the skew of
// the ranks.
inline constexpr int64_t kFirstRedialIntervalNs = kNsPerMs;

// Missing ranks named in a message; the rest is given as a number.
inline constexpr size_t kMaxNamedMissingRanks = 16;

struct JoiningOptions {
  PeerAccess access;
  DialOptions dial;
  bool keep_dialing = false;
  Rendezvous* own = nullptr;  // of this daemon, which needs no dialing; null: none
  Endpoint endpoint = {};     // of this daemon
  NamedRendezvous* named =
      nullptr;  // it is asked for the route to the rendezvous; null: dial.route
  TreeRelay* relay = nullptr;
  std::string tenant = {};  // for whom the communicator counts
  // Of a message of the rendezvous, or of a forwarder. One turn of the engine parses a roster, so
  // its size must fit the communicator.
  uint32_t most_roster_bytes = kMaxPeerMessageBytes;
  Log* log = nullptr;
};

// How long a withdrawing host waits for the rendezvous to read its message.
inline constexpr int64_t kWithdrawalTimeoutNs = kNsPerSec;
// How long a host waits for the roster that it has requested: many may request it at once.
inline constexpr int64_t kRosterRequestTimeoutNs = 30 * kNsPerSec;

class Joining {
 public:
  explicit Joining(const JoiningOptions& options);

  // Registers one more local rank.
  void Add(const peer::Join& join);

  // The serialised roster when all ranks of the communicator have joined; nothing until then. An
  // error: the rendezvous rejected the join or ended.
  absl::StatusOr<std::optional<std::string>> Poll();

  // This host leaves the rendezvous, which notifies the others unless it has
  // already finished.
  void Withdraw(const absl::Status& why);
  // After Withdraw: the rendezvous has received it (it answers or closes), or the time limit has
  // passed. Closing a link earlier, with a message of the rendezvous unread, may lose the
  // withdrawal.
  bool WithdrawalDone();
  // After WithdrawalDone: the roster, if it crossed with Withdraw. The rendezvous has then not
  // processed the withdrawal, and the others count on this host.
  std::optional<std::string> TakeLateRoster() { return std::exchange(late_roster_, std::nullopt); }

  // "ranks 3, 5 have not joined".
  std::string DescribeMissing() const;
  // The next time at which Poll (after Withdraw, WithdrawalDone) has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  // Opens the link if the rendezvous is that of this daemon.
  void ConnectOwn();
  // Takes the route to a named rendezvous. Returns false as long as it is not known.
  bool KnowsRoute();
  absl::Status PollDial();
  // Handles the next message of the rendezvous; false if there is none. Sets roster_.
  absl::StatusOr<bool> ReceiveMessage();
  absl::Status OnMessage(peer::Message& message);
  void OnNotice(const peer::RosterNotice& notice);
  // Takes the roster from a forwarder, or asks the rendezvous for it if it is late.
  absl::Status PollRelay();
  void RequestRoster(const char* why);

  const JoiningOptions options_;
  const CommId id_;
  DialOptions dial_options_;
  std::optional<NamedRendezvous::Seeker> seeker_;
  MonotonicNs next_log_;
  MonotonicNs redial_at_ = 0;
  int64_t dial_again_after_ns_ = kFirstRedialIntervalNs;
  MonotonicNs withdrawal_deadline_ = 0;  // after Withdraw
  std::optional<std::string> roster_;
  std::optional<std::string> late_roster_;
  TreeRelay::Inbox inbox_;
  std::string roster_hash_;          // of the notice; empty: no notice yet
  MonotonicNs roster_deadline_ = 0;  // after the notice: of the relay, then of the request
  bool roster_requested_ = false;
  bool finished_ = false;           // the rendezvous has finished or is unreachable
  std::unique_ptr<Dial> dial_;      // until the link is open
  std::unique_ptr<PeerLink> link_;  // after that
  std::vector<peer::Join> waiting_;
  std::vector<int> missing_;
  uint32_t unnamed_missing_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_JOINING_H_
