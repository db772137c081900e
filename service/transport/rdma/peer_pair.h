// One queue pair between two daemons, shared by lanes in both directions.
//
//   lane ends ── Send ──► requests, posted together by Flush ──► the peer
//   lane ends ◄── OnSent, OnMessage, OnWritten, OnPairLost ── completions
//
// Receives: each message and each slice takes an entry of the peer's shared receive queue. Each end
// may have as many unconsumed as the peer has granted, and the peer returns what it has consumed
// with its own slices and messages, or in a message of its own once half of them are used up. So no
// entry is ever missing. The last one is kept for such a message. Returns do not depend on the
// owners of lanes: a lane's credit never delays another lane.
//
// Completions: only some requests are signaled, and one completion is for all requests before it.
//
// OWNER: its lane ends, shared, and PeerPairs. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIR_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/transport/rdma/rdma_wire.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

// Number of a lane end on its queue pair, chosen by that end.
using LaneNumber = StrongInt<struct LaneNumberTag, uint16_t>;

// The protection domain of a tenant on a NIC, with its receive queue.
struct PairDomain {
  std::unique_ptr<ProtectionDomain> verbs;
  uint32_t granted = 0;  // receive entries that belong to queue pairs
};

// Of one end: for a tag with its slice, and a message that returns receives.
inline constexpr uint32_t kLeastReceives = 4;

class PeerPair : public std::enable_shared_from_this<PeerPair> {
 public:
  // A lane end. Called within PeerPair's functions.
  class User {
   public:
    virtual ~User() = default;
    // The request with this cookie, and all earlier ones of this user, have taken effect.
    virtual void OnSent(uint64_t cookie) = 0;
    // The peer's NIC did not accept the write with this cookie. OnPairLost follows.
    virtual void OnWriteFault(uint64_t cookie) = 0;
    virtual void OnMessage(const wire::PairMessage& message) = 0;
    virtual void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) = 0;
    // A Claim that was refused may succeed now.
    virtual void OnRoom() = 0;
    // The queue pair does not work any more; and once more when it is settled().
    virtual void OnPairLost(const absl::Status& why) = 0;
  };

  struct Options {
    wire::PairName name{};
    uint32_t serial = 0;      // of the pairs of a NIC: part of the ids of its requests
    uint32_t requests = 256;  // of the queue pair
    uint8_t receives = 64;    // entries that the peer may use; at least kLeastReceives
    std::function<void(PeerPair&)> on_break = nullptr;  // called once
  };

  PeerPair(std::shared_ptr<PairDomain> domain, std::unique_ptr<QueuePair> queue_pair,
           const Options& options);
  ~PeerPair();
  PeerPair(const PeerPair&) = delete;

  const wire::PairName& name() const { return options_.name; }
  ProtectionDomain& domain() { return *domain_->verbs; }
  QueuePair& queue_pair() { return *queue_pair_; }
  QueuePairNumber number() const { return number_; }
  uint8_t receives() const { return options_.receives; }

  // Connects it to the peer's, which may use `receives` entries here. Once only.
  absl::Status Connect(const QueuePairAddress& peer, uint32_t receives);
  bool connected() const { return peer_number_.has_value(); }
  // REQUIRES: connected.
  QueuePairNumber peer_number() const { return *peer_number_; }
  // The peer has connected its end too.
  void SetUsable() { usable_ = true; }
  bool usable() const { return usable_ && status_.ok(); }
  // OK, or why it does not work any more.
  const absl::Status& status() const { return status_; }
  // It does not work any more, and its users know of all that has arrived.
  bool settled() const { return settled_; }
  // All completions have been delivered that were in the queue after it had drained.
  void SetSettled();

  // kResourceExhausted: it has 65,536 lanes. LIFETIME: `user` until Leave.
  absl::StatusOr<LaneNumber> Join(User& user);
  void Leave(LaneNumber number);

  // Whether the user may send `count` requests, of which each takes an entry at the peer. If not,
  // it is told when to try again.
  bool Claim(LaneNumber user, uint32_t count) {
    if (HasRoomFor(count)) return true;
    if (usable()) waiting_.push_back(user);
    return false;
  }
  // Requests of this host's own that take no entry: kBind, kInvalidate.
  bool HasRoomForLocal(uint32_t count) const {
    return usable() && outstanding() + count <= options_.requests;
  }
  // Each queues a request for Flush. REQUIRES: room.
  // `cookie`: for OnSent and OnWriteFault.
  void Write(LaneNumber user, WorkRequest request, wire::ImmediateFields immediate,
             uint64_t cookie);
  void Send(LaneNumber user, wire::PairMessage message);
  void PostLocal(LaneNumber user, const WorkRequest& request, uint64_t cookie);
  // Posts what is queued, and returns receives if many are owed. Returns true if it posted any.
  bool Flush();

  // Of its NIC's completion queue.
  void OnCompletion(const Completion& completion);
  // It has failed, or its peer has: all users are told.
  void Break(const absl::Status& why);

  // Messages and slices for lanes that do not exist, dropped.
  uint64_t unknown() const { return unknown_; }

 private:
  // A request whose completion has not been seen.
  struct Outstanding {
    LaneNumber user;
    uint64_t cookie = 0;
    bool reports = false;  // its user has a cookie
  };

  bool HasRoomFor(uint32_t count) const {
    return usable() && outstanding() + count <= options_.requests && peer_receives_ > count;
  }
  size_t outstanding() const { return outstanding_.size(); }
  User* Find(LaneNumber number);
  void Queue(LaneNumber user, const WorkRequest& request, uint64_t cookie, bool reports,
             bool signaled);
  // Takes the number of receives to return with the next request.
  uint8_t TakeReturns();
  void QueueMessage(LaneNumber user, wire::PairMessage message);
  void OnRequest(const Completion& completion);
  // A message or a slice has arrived, which took an entry here. Returns whether it may be used.
  bool OnArrival(uint8_t returned);
  void WakeWaiting();
  void AddReturned(uint8_t count);
  void Complete(uint64_t through);

  const std::shared_ptr<PairDomain> domain_;
  const std::unique_ptr<QueuePair> queue_pair_;
  const QueuePairNumber number_;
  const Options options_;
  absl::Status status_;
  std::optional<QueuePairNumber> peer_number_;
  bool usable_ = false;
  bool settled_ = false;

  absl::flat_hash_map<LaneNumber, User*> users_;
  LaneNumber last_number_;

  std::vector<LaneNumber> waiting_;  // refused by Claim
  std::vector<WorkRequest> batch_;
  bool batch_reports_ = false;  // one of it has a user's cookie
  std::deque<Outstanding> outstanding_;
  uint64_t completed_;       // requests before outstanding_.front()
  uint32_t unsignaled_ = 0;  // since the last signaled one

  uint32_t peer_receives_ = 0;  // entries at the peer that this end may use
  uint32_t owed_ = 0;           // entries here, consumed by the peer, that were not returned
  uint64_t unknown_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIR_H_
