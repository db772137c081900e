// Sends, receives and puts between the ranks of this host and those of one other host.
//
// Two lanes serve all pairs of ranks: one carries our announcements and payloads, the other the
// peer's (message_tag.h). Announcements go first, as the peer waits for them; payloads take turns,
// a slice each, so that a long message holds up no short one.
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
#include "service/messages/outbox.h"
#include "service/messages/peer_puts.h"
#include "service/transport/lane.h"

namespace mccs {

class PeerMessages final : private SliceSink {
 public:
  // Receives of one of the peer's ranks that have been announced and not sent yet. More than its
  // daemon lets a rank have open, in its group and in all that it has captured (kMaxGroupMessages,
  // kMaxCapturedCalls of service/frontend).
  static constexpr size_t kMaxAnnounced = size_t{1} << 19;

  struct Options {
    // Gives the lane to the peer; asked once, when there is something to send.
    std::function<SendLane*()> open;
    uint32_t slice_bytes = 0;  // payload of a slice at most
    // Whether the pair's source is one of our ranks and its destination one of the peer's.
    std::function<bool(const RankPair&)> may_send;
    // Likewise the other way round.
    std::function<bool(const RankPair&)> may_receive = {};
    // For puts; see PeerPuts.
    SignalCounts* signals = nullptr;
    std::function<const RankPort*(Rank)> port_of = {};
  };

  // LIFETIME: the lane outlives this.
  explicit PeerMessages(Options options);
  ~PeerMessages() override;
  PeerMessages(const PeerMessages&) = delete;
  PeerMessages& operator=(const PeerMessages&) = delete;

  // The peer has opened its lane. LIFETIME: as above.
  void Attach(RecvLane& lane);

  // A call of a local rank whose other end is on the peer. kFailedPrecondition: the calls do not
  // fit together.
  absl::Status Add(const OpenMessage& message);
  // A rank of this host has opened or closed a window, or has left. True when that moved anything.
  bool WindowsChanged() { return puts_.Answer(); }
  // Moves bytes; the messages that are complete are appended to `done`. An error ends the
  // communicator: kFailedPrecondition as above, kDataLoss when the peer breaks the protocol.
  absl::Status Poll(std::vector<OpenMessage>& done, bool* moved);

  // Something of ours is on its way, or waits for the lane to take it.
  bool busy() const {
    return !outbox_.announcements.empty() || !outbox_.transfers.empty() || !unacknowledged_.empty();
  }
  // As PeerPuts'.
  bool WritesInto(Rank rank, uint64_t window) const { return puts_.WritesInto(rank, window); }
  // Appends the oldest call of each pair that waits for the other end's.
  void AddUnanswered(std::vector<OpenMessage>& unanswered) const;
  // A call that `rank`, which has posted `counts` and will post no more, leaves without its other
  // end, or a put that has not come to it; null: there is none.
  const OpenMessage* Unanswered(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  struct Unacknowledged {
    OpenMessage message;
    SliceNumber last = 0;
  };
  struct OutgoingPair {
    std::deque<OpenMessage> sends;     // not announced yet; or
    std::deque<CounterCall> receives;  // announced, not sent yet: one of the two is empty
    uint64_t announced = 0;            // receives heard of, ever
  };
  struct Receive {
    OpenMessage message;
    uint64_t landed = 0;  // bytes, as far as heard
    bool done = false;
    // Bytes that have a place: those of the slice `placed_slice`, the last one, from `placed_from`
    // on. A place is given once, lest a slice be written into memory that its rank has back.
    uint64_t placed = 0;
    uint64_t placed_from = 0;
    std::optional<SliceNumber> placed_slice = std::nullopt;
  };
  // The oldest one open in front. Numbers are in a row.
  using IncomingPair = std::deque<Receive>;

  bool Place(const SliceTag& tag, uint32_t bytes, std::vector<MemRef>& pieces) override;
  // The open receive that a payload belongs to; null when there is none, or it does not lie in it.
  Receive* Find(const MessageTag& tag, uint32_t bytes);
  absl::Status Match(OutgoingPair& pair);
  absl::Status PollIncoming(std::vector<OpenMessage>& done, bool* moved);
  absl::Status Hear(const MessageTag& tag, Landing landing, uint32_t bytes,
                    std::vector<OpenMessage>& done);
  absl::Status HearPayload(const MessageTag& tag, Landing landing, uint32_t bytes,
                           std::vector<OpenMessage>& done);
  absl::Status PollOutgoing(std::vector<OpenMessage>& done, bool* moved);
  // A slice of the transfer in front, which goes to the back. False: the lane took none.
  absl::StatusOr<bool> PostNext();
  bool Post(const ConstMemRef& piece, const MessageTag& tag, SliceNumber* number);

  const Options options_;
  SendLane* send_ = nullptr;
  RecvLane* receive_ = nullptr;
  SliceNumber next_slice_ = 0;  // to come from the peer

  Outbox outbox_;
  PeerPuts puts_;
  std::deque<Unacknowledged> unacknowledged_;
  absl::flat_hash_map<RankPair, OutgoingPair> outgoing_;
  absl::flat_hash_map<Rank, size_t> announced_;  // receives in them, by the peer's rank
  absl::flat_hash_map<RankPair, IncomingPair> incoming_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_
