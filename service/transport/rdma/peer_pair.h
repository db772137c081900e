// One queue pair between two daemons, shared by lanes in both directions.
//
//   lane ends ── Send ──► requests, posted together by Flush ──► the peer
//   lane ends ◄── OnSent, OnMessage, OnWritten, OnPairLost ── completions
//
//   making ──► made ──► connected ──► usable ──► broken ──► settled ──► (ends with its last lane)
//              the device makes and connects it apart from the engine (VerbsJobs)
//
// Receives: each message and each slice takes an entry of the peer's receive queue. Each end may
// have as many unconsumed as the peer has granted, and the peer returns what it has consumed with
// its own slices and messages, or in a message of its own once half of them are used up. So no
// entry is ever missing. The last one is kept for such a message. Returns do not depend on the
// owners of lanes: a lane's credit never delays another lane.
//
// Completions: only some requests are signaled, and one completion is for all requests before it.
// The memory of a request's source and its window are kept until then.
//
// A broken pair stays until its completions have been polled, also after its last lane: they return
// entries of the receive queue, and until then the NIC may read sources.
//
// OWNER: PeerPairs; its lane ends share it. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIR_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "service/transport/lane_identity.h"
#include "service/transport/rdma/pair_domain.h"
#include "service/transport/rdma/rdma_wire.h"
#include "service/transport/rdma/registered_memory.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

// Number of a lane end on its queue pair, chosen by that end.
using LaneNumber = StrongInt<struct LaneNumberTag, uint16_t>;

// Lanes for which all of it is equal share a queue pair.
struct PairKey {
  SharedQueueKey queues;
  Gid peer_gid{};
  uint8_t ip_traffic_class = 0;   // of this end's packets: DSCP × 4
  uint16_t source_port = 0;       // of this end's packets; 0: any
  uint16_t peer_source_port = 0;  // of the peer's
  uint8_t peer_class = 0;         // the peer's SharedQueueKey::traffic_class
  uint8_t peer_ip_traffic_class = 0;

  friend bool operator==(const PairKey&, const PairKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PairKey& key) {
    return H::combine(std::move(h), key.queues, key.peer_gid, key.ip_traffic_class, key.source_port,
                      key.peer_source_port, key.peer_class, key.peer_ip_traffic_class);
  }
};

// The fewest receives that one end may grant: for a tag with its slice, and a message that returns
// receives.
inline constexpr uint32_t kLeastReceives = 4;

class PeerPair : public std::enable_shared_from_this<PeerPair> {
 public:
  // A lane end. Called within PeerPair's functions.
  class User {
   public:
    virtual ~User() = default;
    // The request with this cookie, and all earlier ones of this user, have taken effect.
    virtual void OnSent(uint64_t cookie) = 0;
    virtual void OnMessage(const wire::PairMessage& message) = 0;
    virtual void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) = 0;
    // The pair has been made or connected, or what was refused for lack of room may succeed now.
    virtual void OnProgress() = 0;
    // The queue pair does not work any more; and once more when it is settled().
    virtual void OnPairLost(const absl::Status& why) = 0;
  };
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnBroken(PeerPair& pair) = 0;
    // Nothing arrives any more: Settle may be called from SettlesAt() on. Again when that is
    // earlier.
    virtual void OnStopped(PeerPair& pair) = 0;
    // It has requests that no lane's turn posts.
    virtual void OnQueued(PeerPair& pair) = 0;
    // No further lane is to join it.
    virtual void OnWithdrawn(PeerPair& pair) = 0;
    // It begins or ends to wait for completions.
    virtual void OnWaiting(bool waits) = 0;
  };

  struct Options {
    PairKey key;
    wire::PairName name{};
    bool is_maker = false;    // this end has offered it
    uint32_t serial = 0;      // of the pairs of a NIC: its lowest 23 bits are in request ids
    uint32_t requests = 128;  // of the queue pair
    uint8_t receives = 64;    // entries that the peer may use; at least kLeastReceives
  };

  // LIFETIME: `owner` and `clock` outlive this.
  PeerPair(std::shared_ptr<PairDomain> domain, Owner& owner, const Clock& clock,
           const Options& options);
  ~PeerPair();
  PeerPair(const PeerPair&) = delete;

  const Options& options() const { return options_; }
  const PairKey& key() const { return options_.key; }
  const wire::PairName& name() const { return options_.name; }
  const wire::PairId& id() const { return id_; }
  const std::shared_ptr<PairDomain>& domain() const { return domain_; }
  uint8_t receives() const { return options_.receives; }

  // ---- Its making ----

  // The device has made the queue pair, or could not. Called once.
  void OnMade(absl::StatusOr<std::unique_ptr<QueuePair>> made);
  bool made() const { return queue_pair_ != nullptr; }
  // OnMade has not been called yet.
  bool in_making() const { return !was_made_; }
  // Set when it breaks: what is not begun need not be done. THREAD of the value: any.
  const std::shared_ptr<std::atomic<bool>>& abandoned() const { return abandoned_; }
  // REQUIRES: made.
  QueuePair& queue_pair() { return *queue_pair_; }
  QueuePairNumber number() const { return number_; }
  // The peer's end, which may use `receives` entries here. Kept until the queue pair is connected.
  // kInvalidArgument: out of range.
  absl::Status SetPeer(const QueuePairAddress& peer, uint32_t receives);
  bool has_peer() const { return peer_.has_value(); }
  QueuePairNumber peer_number() const { return peer_->number; }
  // The first lane sends the pair's name to the peer, and the others wait until it has answered.
  // False: another one does. A peer that does not answer within kIntroductionNs, or whose lane
  // leaves, may be a program of the tenant that acts as one: the others take another pair.
  bool Introduce(LaneNumber number);
  static constexpr int64_t kIntroductionNs = 3 * kNsPerSec;
  bool withdrawn() const { return withdrawn_; }
  bool introduced_by(LaneNumber number) const { return introducer_ == number; }
  // Starts to connect it to its peer. REQUIRES: made; has_peer; not called before.
  void Connect();
  bool connected() const { return connected_; }
  // REQUIRES: not made yet.
  void SetConnected() { connects_ = connected_ = true; }
  // Both ends are connected.
  void SetUsable() { usable_ = true; }
  bool usable() const { return usable_ && connected_ && status_.ok(); }
  // Something has passed over it, in either direction.
  bool works() const { return works_; }

  // ---- Its end ----

  // It has failed, or its peer has. Calls OnPairLost of all users.
  void Break(const absl::Status& why);
  // OK, or why it does not work any more.
  const absl::Status& status() const { return status_; }
  // It does not work any more, and its users know of all that has arrived.
  bool settled() const { return settled_; }
  // All of its completions that were in the completion queue at SettlesAt() have been polled.
  void Settle();
  // When no more completions follow. REQUIRES: stopped.
  MonotonicNs SettlesAt() const { return drained_ ? 0 : stopped_at_ + kDrainNs; }
  // The event kDrained.
  void OnDrained();
  // A NIC completes a request, successfully or not, within its timeouts. Breaks a pair whose NIC
  // has done neither for kStuckNs, or has not ended an access to memory within kRevokeNs: a peer
  // that does not acknowledge earlier requests must not keep a tenant's memory.
  static constexpr int64_t kStuckNs = 10 * kNsPerSec;
  static constexpr int64_t kRevokeNs = kNsPerSec;
  void CheckProgress();
  // Whether it waits for a completion.
  bool waits() const { return waits_; }

  // ---- Its lanes ----

  // kResourceExhausted: it has 65,536 lanes. LIFETIME: `user` until Leave.
  absl::StatusOr<LaneNumber> Join(User& user);
  // The rate limit of the payload that a user sends; 0: none. If all that send have one, and the
  // device can, it limits the queue pair to their sum.
  void SetRate(LaneNumber user, uint64_t bps);
  // A pair without users breaks.
  void Leave(LaneNumber number);

  // Whether the user may send `count` requests, of which each takes an entry at the peer. If not,
  // OnProgress follows when it may try again.
  bool Claim(LaneNumber user, uint32_t count) {
    if (HasRoomFor(count)) return true;
    if (usable()) Await(user);
    return false;
  }
  // Each queues a request for Flush. REQUIRES: room.
  // `cookie`: for OnSent. `source`: kept until the request is complete; may be null.
  void Write(LaneNumber user, WorkRequest request, wire::ImmediateFields immediate, uint64_t cookie,
             std::shared_ptr<RegisteredMemory> source);
  template <typename Message>
  void Send(LaneNumber user, const Message& message) {
    static_assert(sizeof(Message) == kMessageBytes);
    SendBytes(user, std::bit_cast<VerbsMessage>(message));
  }
  // Binds an unused window to the memory, for the peer, and leaves room for a message with its key.
  // The binding ends with its last reference. Null: there is no room or window now; OnProgress
  // follows. Errors: the device's.
  // REQUIRES: the memory is ready.
  absl::StatusOr<std::shared_ptr<WindowBinding>> Bind(
      LaneNumber user, const std::shared_ptr<RegisteredMemory>& memory);
  // Posts what is queued, and returns receives if many are owed. Returns true if it posted any.
  bool Flush();

  // Of its NIC's completion queue.
  void OnCompletion(const Completion& completion);

 private:
  friend class WindowBinding;

  // A request whose completion has not been seen, and what it uses.
  struct Outstanding {
    LaneNumber user;
    uint64_t cookie = 0;
    bool reports = false;  // its user has a cookie
    std::shared_ptr<RegisteredMemory> memory;
    std::unique_ptr<MemoryWindow> window;  // it is invalidated
  };
  // A window whose access must end.
  struct Unbinding {
    std::unique_ptr<MemoryWindow> window;
    uint32_t key = 0;
    std::shared_ptr<RegisteredMemory> memory;
  };

  // `messages`: requests that take an entry at the peer. `local`: others.
  bool HasRoomFor(uint32_t messages, uint32_t local = 0) const {
    return usable() && outstanding_.size() + messages + local <= options_.requests &&
           (messages == 0 || peer_receives_ > messages);
  }
  User* Find(LaneNumber number);
  // The user's OnProgress is called when there is room.
  void Await(LaneNumber number);
  void SendBytes(LaneNumber user, const VerbsMessage& message);
  void Queue(const WorkRequest& request, Outstanding outstanding);
  void Unbind(Unbinding unbinding);
  void QueueUnbindings();
  // Takes the number of receives to return with the next request.
  uint8_t TakeReturns();
  void OnRequest(const Completion& completion);
  // A message or a slice has arrived, which took an entry here. Returns whether it may be used.
  bool OnArrival(uint8_t returned);
  void WakeWaiting();
  void Progress();
  void AddReturned(uint8_t count);
  void Complete(uint64_t through);
  void Retire(Outstanding& done);
  void ReportLoss();
  void End();
  void OnStop();
  void Withdraw();
  void DropUses();
  void UpdateWaiting();
  void UpdateRate();

  const std::shared_ptr<PairDomain> domain_;
  Owner& owner_;
  const Clock& clock_;
  const Options options_;
  const wire::PairId id_;
  std::unique_ptr<QueuePair> queue_pair_;
  QueuePairNumber number_;
  std::optional<QueuePairAddress> peer_;
  std::optional<LaneNumber> introducer_;
  MonotonicNs introduced_at_ = 0;
  bool withdrawn_ = false;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  bool was_made_ = false;
  bool connects_ = false;  // it may be connected
  bool connected_ = false;
  bool usable_ = false;
  bool works_ = false;

  absl::Status status_;
  bool stopped_ = false;  // nothing arrives any more
  bool drained_ = false;
  MonotonicNs stopped_at_ = 0;
  bool settled_ = false;

  struct Member {
    User* user = nullptr;
    bool waits = false;  // it is in waiting_
  };
  absl::flat_hash_map<LaneNumber, Member> users_;
  LaneNumber last_number_;
  absl::flat_hash_map<LaneNumber, uint64_t> rates_;  // of the users that send
  uint64_t rate_bps_ = 0;                            // of the device

  std::vector<LaneNumber> waiting_;  // refused by Claim or Bind, each once
  bool awaits_windows_ = false;      // of its domain
  std::vector<WorkRequest> batch_;
  bool batch_reports_ = false;  // one of it must be known to be complete
  std::deque<Outstanding> outstanding_;
  std::deque<Unbinding> unbinding_;     // for which there was no room, or of a broken pair
  const uint64_t first_id_;             // of its requests
  uint64_t completed_ = 0;              // requests before outstanding_.front()
  std::deque<MonotonicNs> revoked_at_;  // of windows whose access has not ended yet, oldest first
  uint32_t unsignaled_ = 0;             // since the last signaled one
  uint64_t signaled_end_ = 0;           // requests up to the last one that is signaled and posted
  bool waits_ = false;                  // for the completion of one of them
  MonotonicNs progress_at_ = 0;         // the last completion, or the begin of the wait

  uint32_t peer_receives_ = 0;  // entries at the peer that this end may use
  uint32_t owed_ = 0;           // entries here, consumed by the peer, that were not returned
};

// The access of a pair's peer to registered memory, by a window. It ends with the last reference,
// or with Revoke; the memory is kept until the NIC has confirmed that. Memory that has a key of its
// own (MemoryRegion::remote_key) needs no window; then the access ends with the registration, or
// with the pair.
class WindowBinding {
 public:
  WindowBinding(std::shared_ptr<PeerPair> pair, std::unique_ptr<MemoryWindow> window, uint32_t key,
                std::shared_ptr<RegisteredMemory> memory)
      : pair_(std::move(pair)),
        has_window_(window != nullptr),
        window_(std::move(window)),
        key_(key),
        memory_(std::move(memory)) {}
  ~WindowBinding() { Revoke(); }
  WindowBinding(const WindowBinding&) = delete;

  void Revoke() {
    if (window_ == nullptr) return memory_.reset();  // without one, or revoked before
    pair_->Unbind({.window = std::move(window_), .key = key_, .memory = std::move(memory_)});
  }
  bool revoked() const { return memory_ == nullptr; }
  // Revoke alone does not end the access.
  bool outlives_revoke() const { return !has_window_; }
  uint32_t key() const { return key_; }

 private:
  const std::shared_ptr<PeerPair> pair_;
  const bool has_window_;
  std::unique_ptr<MemoryWindow> window_;
  const uint32_t key_;
  std::shared_ptr<RegisteredMemory> memory_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIR_H_
