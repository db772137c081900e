// The member's side of the rendezvous: brings this host's ranks there and waits for the roster.
//
// OWNER: a Communicator that is forming. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_JOINING_H_
#define MCCS_SERVICE_COMMUNICATOR_JOINING_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/communicator/dial.h"
#include "service/communicator/peer_link.h"

namespace mccs {

// Says who is missing after this long, and then every minute.
inline constexpr int64_t kFirstMissingLogNs = 5 * kNsPerSec;
inline constexpr int64_t kMissingLogEveryNs = 60 * kNsPerSec;

// An id that was derived from NCCL_COMM_ID names a place where rank 0's daemon may not listen yet:
// dialled again this often.
inline constexpr int64_t kDialRendezvousAgainNs = 100 * kNsPerMs;
// One that was derived from a communicator names a place that opens within the skew of its ranks:
// sooner at first.
inline constexpr int64_t kFirstDialAgainNs = kNsPerMs;

// A text names at most this many missing ranks; the rest is a number.
inline constexpr size_t kMaxNamedMissingRanks = 16;

struct JoiningOptions {
  PeerAccess access;
  DialOptions dial;
  bool keep_dialling = false;
  Log* log = nullptr;
};

// How long a host that gives up waits for the rendezvous to hear it.
inline constexpr int64_t kPartingNs = kNsPerSec;

class Joining {
 public:
  explicit Joining(const JoiningOptions& options);

  // Announces one more local rank.
  void Add(const peer::Join& join);

  // The roster once all ranks of the communicator have joined; nothing until then. An error is the
  // rendezvous's refusal, or its end.
  absl::StatusOr<std::optional<peer::Roster>> Poll();

  // This host gives up: the rendezvous tells the others why, unless it has concluded already.
  void Withdraw(const absl::Status& why);
  // After Withdraw: the rendezvous has heard it (it answers, or closes), or was silent for too
  // long. A link that is closed before, with a message of the rendezvous unread, may take our last
  // words with it.
  bool Parted();
  // Once parted: the roster that crossed with Withdraw, if one did. Then the rendezvous heard
  // nothing, and the others count on this host.
  std::optional<peer::Roster> TakeLateRoster() { return std::exchange(late_roster_, std::nullopt); }

  // "ranks 3, 5 have not joined".
  std::string DescribeMissing() const;
  // When Poll (after Withdraw, Parted) has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  absl::Status PollDial();

  const JoiningOptions options_;
  const CommId id_;
  MonotonicNs next_log_;
  MonotonicNs dial_again_at_ = 0;
  int64_t dial_again_after_ns_ = kFirstDialAgainNs;
  MonotonicNs part_by_ = 0;  // after Withdraw
  std::optional<peer::Roster> late_roster_;
  bool over_ = false;               // the rendezvous has concluded, or is gone
  std::unique_ptr<Dial> dial_;      // until the link stands
  std::unique_ptr<PeerLink> link_;  // then
  std::vector<peer::Join> waiting_;
  std::vector<int> missing_;
  uint32_t unnamed_missing_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_JOINING_H_
