// The control links of one running communicator: every member daemon speaks with the leader, the
// daemon of rank 0, and the leader passes on what concerns all.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_STAR_H_
#define MCCS_SERVICE_COMMUNICATOR_STAR_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "service/communicator/dial.h"
#include "service/communicator/peer_link.h"

namespace mccs {

// A message and the host that it came from.
struct StarMessage {
  HostIndex from;
  peer::Message message;
};

class Star {
 public:
  // The leader of `hosts` hosts.
  Star(HostIndex self, int hosts) : self_(self), leader_(self), links_(hosts) {}
  // A member: `dial` opens the link to the leader.
  Star(HostIndex self, HostIndex leader, int hosts, std::unique_ptr<Dial> dial)
      : self_(self), leader_(leader), links_(hosts), dial_(std::move(dial)) {}

  // The longest message that links take from now on. Before any is linked.
  void Limit(uint32_t most_bytes) { most_bytes_ = most_bytes; }

  bool leads() const { return self_ == leader_; }
  HostIndex leader() const { return leader_; }

  // The leader's side of a member that dialled; it says who it is with its first message (Hello).
  void Accept(std::unique_ptr<Connection> connection);

  // To all other hosts: a member's goes to the leader, who passes it on.
  void Broadcast(const peer::Message& message);
  // Waits for the link, if it is still being opened.
  void SendToLeader(const peer::Message& message);

  // The next message for this host; nothing when none has come. kUnavailable: host `lost()` is
  // gone.
  absl::StatusOr<std::optional<StarMessage>> Receive();
  HostIndex lost() const { return lost_; }

  // Every other host is linked (leader), or the leader is (member).
  bool complete() const;
  // Hosts that are not linked yet, for texts.
  std::vector<HostIndex> Unlinked() const;

  // A host that took its leave: that its link ends is no loss.
  void Excuse(HostIndex host);
  bool Excused(HostIndex host) const { return links_[host.value()].excused; }
  // The leader: every other host took its leave or is gone.
  bool alone() const;

  bool Poll();
  bool flushed() const;

 private:
  struct Spoke {
    std::unique_ptr<PeerLink> link;
    bool excused = false;
  };

  void PassOn(HostIndex from, const peer::Message& message);

  const HostIndex self_;
  const HostIndex leader_;
  std::vector<Spoke> links_;  // by HostIndex; a member uses the leader's only
  std::vector<std::unique_ptr<PeerLink>> strangers_;  // dialled, Hello not read yet
  uint32_t most_bytes_ = kMaxPeerMessageBytes;
  std::unique_ptr<Dial> dial_;
  std::vector<peer::Message> outbox_;  // of a member whose link is being opened
  absl::Status dial_status_;
  HostIndex lost_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STAR_H_
