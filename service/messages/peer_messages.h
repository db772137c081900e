// Sends, receives and puts between the ranks of this host and those of one other host.
//
// Two lanes serve all pairs of ranks: one for our announcements and payloads, the other for the
// peer's (open_message.h). Announcements have precedence, because the peer waits for them. Payloads
// alternate slice by slice, so that a long message does not block a short one.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_
#define MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/messages/open_message.h"
#include "service/messages/peer_puts.h"
#include "service/transport/lane.h"

namespace mccs {

class PeerMessages final : private SliceSink {
 public:
  // Limit of announced, unsent receives of one of the peer's ranks. It exceeds what a daemon lets a
  // rank have open in its group and all its captured work (kMaxGroupMessages, kMaxCapturedCalls of
  // service/frontend).
  static constexpr size_t kMaxAnnounced = size_t{1} << 19;

  struct Options {
    // Returns the lane to the peer; called once, when there is data to send.
    std::function<SendLane*()> open;
    uint32_t slice_bytes = 0;  // maximum payload of a slice
    // Whether the pair's source is a rank of this host and its destination a rank of the peer.
    std::function<bool(const RankPair&)> may_send;
    // Likewise, from the peer to this host.
    std::function<bool(const RankPair&)> may_receive = {};
    // For puts; see PeerPuts.
    SignalCounts* signals = nullptr;
    std::function<const WindowPort*(Rank)> port_of = {};
  };

  // LIFETIME: the lane outlives this.
  explicit PeerMessages(Options options);
  ~PeerMessages() override;
  PeerMessages(const PeerMessages&) = delete;
  PeerMessages& operator=(const PeerMessages&) = delete;

  // The peer has opened its lane. LIFETIME: as above.
  void Attach(RecvLane& lane);

  // Adds a call of a local rank whose other end is on the peer. kFailedPrecondition: the calls do
  // not match.
  absl::Status Add(const OpenMessage& message);
  // A rank of this host has opened or closed a window, or has left. Returns true if anything moved.
  bool WindowsChanged() { return puts_.SendWindowReplies(); }
  // Advances transfers and appends complete messages to `done`. An error ends the communicator:
  // kFailedPrecondition as above, kDataLoss if the peer breaks the protocol.
  absl::Status Poll(std::vector<OpenMessage>& done, bool* moved);

  // Data of this host is in flight or waits for the lane.
  bool busy() const {
    return !outbox_.announcements.empty() || !outbox_.transfers.empty() || !unacknowledged_.empty();
  }
  // As PeerPuts'.
  bool WritesInto(Rank rank, uint64_t window) const { return puts_.WritesInto(rank, window); }
  // Appends, for each pair, the oldest call that waits for the other end.
  void AddUnmatched(std::vector<OpenMessage>& unmatched) const;
  // A call that can never complete because `rank` has left after posting `counts`: it lacks its
  // other end, or is a put that has not reached the rank. Null if there is none.
  const OpenMessage* Unmatched(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  struct Unacknowledged {
    OpenMessage message;
    SliceNumber last = 0;
  };
  struct OutgoingPair {
    std::deque<OpenMessage> sends;  // not announced yet; or
    std::deque<PeerCall> receives;  // announced, not sent yet: one of the two is empty
    uint64_t announced = 0;         // total number of announced receives
  };
  struct Receive {
    OpenMessage message;
    uint64_t landed = 0;  // bytes received so far
    bool done = false;
    // Bytes that have a destination; the last slice of them is `placed_slice`, from `placed_from`
    // on. Each byte is placed once, so that no slice is written into memory that its rank uses
    // again.
    uint64_t placed = 0;
    uint64_t placed_from = 0;
    std::optional<SliceNumber> placed_slice = std::nullopt;
  };
  // The oldest incomplete one in front. Numbers are consecutive.
  using IncomingPair = std::deque<Receive>;

  bool FindDestination(const SliceTag& tag, uint32_t bytes,
                       std::vector<RegionSpan>& pieces) override;
  // The incomplete receive of a payload; null if there is none or the payload does not fit.
  Receive* Find(const MessageTag& tag, uint32_t bytes);
  absl::Status Match(OutgoingPair& pair);
  absl::Status PollIncoming(std::vector<OpenMessage>& done, bool* moved);
  absl::Status OnSlice(const MessageTag& tag, Landing landing, uint32_t bytes,
                       std::vector<OpenMessage>& done);
  absl::Status OnPayload(const MessageTag& tag, Landing landing, uint32_t bytes,
                         std::vector<OpenMessage>& done);
  absl::Status PollOutgoing(std::vector<OpenMessage>& done, bool* moved);
  // Posts a slice of the front transfer, which then moves to the back. False: the lane accepted
  // none.
  absl::StatusOr<bool> PostNext();
  bool Post(const RegionSpan& piece, const MessageTag& tag, SliceNumber* number);

  const Options options_;
  SendLane* send_ = nullptr;
  RecvLane* receive_ = nullptr;
  SliceNumber next_slice_ = 0;  // the next slice from the peer

  Outbox outbox_;
  PeerPuts puts_;
  std::deque<Unacknowledged> unacknowledged_;
  absl::flat_hash_map<RankPair, OutgoingPair> outgoing_;
  absl::flat_hash_map<Rank, size_t> announced_;  // announced receives, by the peer's rank
  absl::flat_hash_map<RankPair, IncomingPair> incoming_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_
