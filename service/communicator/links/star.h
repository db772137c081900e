// The control links of one running communicator. Every member daemon has a link to the leader, the
// daemon of rank 0. The leader forwards failures at once, and departures after its owner has
// checked them. A turn serves only links that have work, and a limited number of them: a program
// may act as all other hosts.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_STAR_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_STAR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/ready_list.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/links/peer_link.h"

namespace mccs {

// A message and its source host.
struct StarMessage {
  HostIndex from;
  peer::Message message;
};

class Star {
 public:
  // Costs of one turn: bytes that it sends, and bytes that it reads. Each link that it serves and
  // each message for all hosts costs in addition; turn_cost.h has the unit.
  static constexpr int64_t kCostPerTurn = 1 << 20;
  static constexpr int64_t kLinkCost = 4 << 10;
  // To queue a message for one of many hosts.
  static constexpr int64_t kQueueCost = 1 << 10;
  // Failures of one host that the leader forwards: one that was delayed, and one that follows it.
  static constexpr int kMaxForwardedFailures = 2;

  // The leader of `hosts` hosts. `waker` (may be null) is woken when a link has work.
  Star(HostIndex self, int hosts, Waker* waker = nullptr)
      : Star(self, self, hosts, nullptr, waker) {}
  // A member: `dial` opens the link to the leader.
  Star(HostIndex self, HostIndex leader, int hosts, std::unique_ptr<Dial> dial,
       Waker* waker = nullptr);
  Star(const Star&) = delete;

  // Maximum message size of all links. Call before any is open.
  void Limit(uint32_t most_bytes) { most_bytes_ = most_bytes; }

  bool leads() const { return self_ == leader_; }
  HostIndex leader() const { return leader_; }

  // The leader takes a member's link; the member's first message (Hello) identifies it. `host`:
  // whose daemon it has proven to be; empty: nothing.
  void Accept(std::unique_ptr<Connection> connection, const std::string& host = "");
  // For whom the members' links count; null: not counted. Call before the first Accept.
  void CountFor(std::shared_ptr<TenantResources> budget) { budget_ = std::move(budget); }
  // Why a member's link was refused; OK: none was.
  const absl::Status& refused() const { return refused_; }
  // The name that a member must have proven.
  void ExpectHosts(std::function<std::string(HostIndex)> name_of) { name_of_ = std::move(name_of); }

  // Sends to all other hosts. A member sends to the leader, which forwards.
  void Broadcast(const peer::Message& message);
  // The leader sends to one other host, unless its link has ended.
  void SendTo(HostIndex host, PeerFrame frame) { Queue(At(host), std::move(frame)); }
  void SendTo(HostIndex host, const peer::Message& message) { SendTo(host, MakeFrame(message)); }
  // The link to `host` has nothing queued, or has ended.
  bool flushed(HostIndex host) const { return IsFlushed(At(host)); }
  // Queues the message while the link is being opened.
  void SendToLeader(const peer::Message& message);

  // The leader sends a departure of a member's rank to all other hosts but that member.
  void Forward(HostIndex from, peer::Departed departed);

  // The next message for this host; nothing if none has arrived or the turn's cost is used up.
  // kUnavailable: the link to host `lost()` has ended.
  absl::StatusOr<std::optional<StarMessage>> Receive();
  HostIndex lost() const { return lost_; }

  // The leader: every other host is linked. A member: the leader is linked.
  bool complete() const;
  // Hosts that are not linked yet, for messages.
  std::vector<HostIndex> Unlinked() const;

  // `host` has left: the end of its link is not an error.
  void MarkDeparted(HostIndex host);
  bool HasDeparted(HostIndex host) const { return At(host).departed; }
  // The leader: every other host has left or is disconnected.
  bool all_others_left() const { return linked_ == 0; }

  // Starts a turn: opens links and sends queued messages. Returns true if anything moved.
  bool Poll();
  bool flushed() const;
  // Of all turns so far.
  int64_t cost() const { return cost_; }

 private:
  struct Spoke : ReadyList::Member {
    Spoke(ReadyList& list, HostIndex own_host) : Member(list), host(own_host) {}
    const HostIndex host;
    std::unique_ptr<PeerLink> link;
    bool departed = false;
    int forwarded_failures = 0;
  };
  // A connection whose Hello has not been read.
  struct Newcomer : ReadyList::Member {
    Newcomer(ReadyList& list, std::unique_ptr<PeerLink> own_link, const std::string& own_host)
        : Member(list), link(std::move(own_link)), host(own_host) {}
    std::unique_ptr<PeerLink> link;
    const std::string host;
    std::list<Newcomer>::iterator place;
  };

  const Spoke& At(HostIndex host) const { return links_[static_cast<size_t>(host.value())]; }
  Spoke& At(HostIndex host) { return links_[static_cast<size_t>(host.value())]; }
  void Link(Spoke& spoke, std::unique_ptr<PeerLink> link);
  // Queues the message for a later turn.
  static void Queue(Spoke& spoke, PeerFrame frame);
  static bool IsFlushed(const Spoke& spoke) {
    return spoke.link == nullptr || !spoke.link->status().ok() || spoke.link->flushed();
  }
  void QueueForAllBut(HostIndex excluded, const peer::Message& message);
  void ForwardFailure(Spoke& from, peer::Failed failed);
  void Spend(int64_t cost) {
    left_ -= cost;
    cost_ += cost;
  }
  // The links that still have work get a turn of their own.
  void WakeForRest();
  bool PollDial();
  bool Identify(Newcomer& newcomer);

  const HostIndex self_;
  const HostIndex leader_;
  ReadyList ready_;
  ReadyList ready_newcomers_;
  std::deque<Spoke> links_;  // by HostIndex; a member uses the leader's only
  int linked_ = 0;           // number of links
  PeerFrame failure_;        // the leader's last message about one, for hosts that link later
  std::list<Newcomer> newcomers_;
  std::function<std::string(HostIndex)> name_of_;
  std::shared_ptr<TenantResources> budget_;
  absl::Status refused_;
  uint32_t most_bytes_ = kMaxPeerMessageBytes;
  std::unique_ptr<Dial> dial_;
  std::vector<peer::Message> outbox_;  // of a member whose link is being opened
  absl::Status dial_status_;
  int64_t left_ = kCostPerTurn;  // of the turn
  int64_t cost_ = 0;
  HostIndex lost_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_STAR_H_
