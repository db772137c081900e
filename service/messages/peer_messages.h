// Sends, receives and puts between the ranks of this host and those of one other host.
//
// They use the message lanes between the two hosts, each of which serves many pairs of ranks
// (striping.h). This matches sends with announced receives, and checks that every payload arrives
// where its announcement says: on its lane, in its order, in slices of full length.
//
// The turns of its lanes (MessageLaneTurns) advance them. An error ends the communicator:
// kFailedPrecondition for calls that do not match, kDataLoss if the peer breaks the protocol.
//
// OWNER: MessageLoop. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_
#define MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/messages/message_lane.h"
#include "service/messages/open_message.h"
#include "service/messages/peer_puts.h"
#include "service/messages/striping.h"
#include "service/messages/waiting_calls.h"
#include "service/transport/lane.h"

namespace mccs {

class PeerMessages final : private MessageLane::Owner {
 public:
  // Limit of announced, unsent receives of one of the peer's ranks. It exceeds what a daemon lets a
  // rank have open in its group and all its captured work (kMaxGroupMessages, kMaxCapturedCalls of
  // service/frontend).
  static constexpr size_t kMaxAnnounced = size_t{1} << 19;

  struct Options {
    MessageLaneTurns* turns = nullptr;  // of all lanes; outlives this
    // Returns a message lane to the peer; called once for each, when there is data to send.
    std::function<SendLane*(int lane)> open;
    uint32_t slice_bytes = 0;  // maximum payload of a slice
    uint32_t slots = 0;        // of the lanes
    int most_lanes = 1;        // MessageLanes
    // The home lane of a pair of ranks; there are `home_lanes` of them, at most `most_lanes`.
    int home_lanes = 1;
    std::function<int(const RankPair&)> home_of;
    // The number of lanes over which a receive may be announced now: at most `most_lanes`.
    std::function<int()> channels;
    // Whether the pair's source is a rank of this host and its destination a rank of the peer.
    std::function<bool(const RankPair&)> may_send;
    // Likewise, from the peer to this host.
    std::function<bool(const RankPair&)> may_receive = {};
    // For puts; see PeerPuts.
    SignalCounts* signals = nullptr;
    std::function<const WindowPort*(Rank)> port_of = {};
    Device* device = nullptr;  // as WindowCopies::Options; likewise:
    std::function<absl::StatusOr<std::shared_ptr<Region>>(uint64_t bytes)> allocate = {};
  };

  // LIFETIME: the lanes outlive this.
  explicit PeerMessages(Options options);
  PeerMessages(const PeerMessages&) = delete;
  PeerMessages& operator=(const PeerMessages&) = delete;

  // The peer has opened a message lane. LIFETIME: as above. REQUIRES: 0 ≤ lane < kMaxChannels.
  void Attach(int lane, RecvLane& receive) { LaneAt(lane).Attach(receive); }

  // Adds a call of a local rank whose other end is on the peer. kFailedPrecondition: the calls do
  // not match.
  absl::Status Add(const OpenMessage& message);
  // A rank of this host has opened or closed a window, or has left. Returns true if anything moved.
  bool WindowsChanged() { return puts_.SendWindowReplies(); }
  // No process copies into a window.
  bool quiescent() const { return puts_.quiescent(); }
  // The communicator has failed: without further turns, quiescent() becomes true soon, whatever the
  // processes do.
  void Abandon() { puts_.Abandon(); }
  // This rank has left: what waits for its windows counts as copied soon.
  void AbandonFor(Rank rank) { puts_.AbandonFor(rank); }
  // Appends the oldest slice of each lane that a process has not copied.
  void AddUncopied(WaitingCalls& waiting) const { puts_.AddUncopied(waiting); }
  // A lane receives into the window of `rank`, or a process copies into it; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const { return puts_.WritesInto(rank, window); }
  // Appends, for each pair, the oldest call that waits for the other end, and the oldest receive if
  // a part of it has arrived.
  void AddUnmatched(WaitingCalls& waiting) const;
  // Appends the lanes that have something to send, or unacknowledged. `host`: the peer.
  void AddBusyLanes(HostIndex host, WaitingCalls& waiting) const;
  // A call that can never complete because `rank` has left after posting `counts`: it lacks its
  // other end, or is a put that has not reached the rank. Null if there is none.
  const OpenMessage* Unmatched(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  struct OutgoingPair {
    int home;  // lane
    // Sends that have not started, and announced receives of such sends. If the pair does not wait
    // for its turn, one of the two is empty.
    std::deque<OpenMessage> sends;
    std::deque<PeerCall> receives;
    uint64_t announced = 0;  // total number of announced receives
    bool waits = false;      // in waiting_
  };
  struct Receive {
    OpenMessage message;
    uint64_t landed = 0;  // bytes received so far
    // By stripe, the offset of the next slice that gets a destination. Each byte is placed once, so
    // that no slice is written into memory that its rank uses again. A lane keeps the order.
    uint64_t next_of_first = 0;
    std::unique_ptr<uint64_t[]> next_of_others = nullptr;  // from the first slice to the last
    uint16_t stripes = 1;
    bool done = false;
  };
  struct IncomingPair {
    int home;                      // lane
    std::deque<Receive> receives;  // the oldest incomplete one in front; numbers are consecutive
  };

  SendLane* OpenLane(int lane) override { return options_.open(lane); }
  std::optional<RegionSpan> FindDestination(const ArrivingSlice& slice) override;
  absl::Status OnSlice(const ArrivingSlice& slice, std::vector<OpenMessage>& done) override;
  absl::Status OnPosted(const OpenMessage& call) override { return puts_.Posted(call); }
  bool Keeps(const ArrivingSlice& slice) const override { return puts_.Keeps(slice); }
  absl::StatusOr<bool> PollCopies(int lane) override { return puts_.PollCopies(lane); }
  bool has_kept(int lane) const override { return puts_.has_kept(lane); }
  void OnWindowReplyPosted() override { puts_.WindowReplyPosted(); }

  MessageLane& LaneAt(int lane);
  Outbox& HomeOutbox(const RankPair& pair) { return LaneAt(options_.home_of(pair)).OutboxToFill(); }
  OutgoingPair& FindOrAddOutgoing(const RankPair& key);
  IncomingPair& FindOrAddIncoming(const RankPair& key);
  int ChooseStripes(uint64_t bytes) const;
  Striping StripingOf(int home, int stripes) const {
    return {.home = home,
            .home_lanes = options_.home_lanes,
            .stripes = stripes,
            .slice_bytes = options_.slice_bytes};
  }
  // The incomplete receive of a payload, and its pair; null if there is none.
  Receive* Find(const MessageTag& tag, IncomingPair** pair);
  // OK if the slice is one of the receive's, on the lane of its stripe.
  static absl::Status CheckStriping(const Receive& receive, const Striping& striping,
                                    const ArrivingSlice& slice);
  // The offset of the next slice of a stripe; null if too many stripes are in flight.
  uint64_t* NextOf(Receive& receive, int stripe);
  static absl::Status CheckHomeLane(const ArrivingSlice& slice, int home);
  // Starts the pair's matched messages, or lets them wait for their turn.
  absl::Status Match(const RankPair& key, OutgoingPair& pair);
  // Starts the pair's oldest send. False: too many stripes are in flight. REQUIRES: it is matched.
  absl::StatusOr<bool> StartFront(OutgoingPair& pair);
  absl::Status OnSent(uint64_t stripes) override;
  void StartTransfers(const OpenMessage& send, const Striping& striping);
  absl::Status OnAnnouncement(const ArrivingSlice& slice);
  absl::Status OnPayload(const ArrivingSlice& slice, std::vector<OpenMessage>& done);

  const Options options_;
  std::vector<std::unique_ptr<MessageLane>> lanes_;  // null until needed
  PeerPuts puts_;
  absl::flat_hash_map<RankPair, OutgoingPair> outgoing_;
  absl::flat_hash_map<Rank, size_t> announced_;  // announced receives, by the peer's rank
  absl::flat_hash_map<RankPair, IncomingPair> incoming_;
  // The keys of outgoing_ and incoming_, by the peer's rank.
  absl::flat_hash_map<Rank, std::vector<RankPair>> outgoing_to_, incoming_from_;
  // Stripes of messages in flight, and the pairs whose matched messages wait for fewer of them:
  // each starts one in its turn.
  uint64_t sent_stripes_ = 0;
  uint64_t received_stripes_ = 0;  // of messages with more than one
  std::deque<RankPair> waiting_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_PEER_MESSAGES_H_
