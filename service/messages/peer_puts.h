// Puts and signals between the ranks of this host and those of one other host. They share lanes
// with the messages between the two (PeerMessages, open_message.h).
//
//   host of the source                              host of the window
//   first put ── kWindowRequest{window} ────────►
//             ◄─ kWindowReply{bytes} ────────────   when its rank has registered the window
//   put ──────── kPut{window, offset}, bytes … ─►   received directly into the window, or beside it
//      last slice: kSignal{…}, remaining bytes ─►   counted when all of the put has arrived
//
// The calls of one ordered pair of ranks are sent one after the other, on the pair's home lane. A
// lane preserves the order: when a signal is counted, all data of the pair's earlier puts is in
// place.
//
// OWNER: PeerMessages. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_PEER_PUTS_H_
#define MCCS_SERVICE_MESSAGES_PEER_PUTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/messages/open_message.h"
#include "service/messages/signal_counts.h"
#include "service/messages/waiting_calls.h"
#include "service/messages/window_copies.h"
#include "service/transport/lane.h"

namespace mccs {

class PeerPuts {
 public:
  struct Options {
    SignalCounts* signals = nullptr;
    // The port of a rank of this host; null if it has left.
    std::function<const WindowPort*(Rank)> port_of = {};
    // Whether the pair's source is a rank of the peer and its destination one of this host; and the
    // reverse.
    std::function<bool(const RankPair&)> may_receive = {};
    std::function<bool(const RankPair&)> may_send = {};
    // The home lane of a pair that may receive.
    std::function<int(const RankPair&)> home_of = {};
    // The queue of a pair's home lane.
    std::function<Outbox&(const RankPair&)> outbox_of;
    // The lane may use the slot of a kept slice again.
    std::function<void(int lane, SliceNumber)> release = {};
    WindowCopies::Options copies = {};
    uint32_t slice_bytes = 0;
  };

  // LIFETIME: what the options point to outlives it.
  explicit PeerPuts(Options options) : options_(std::move(options)), copies_(options_.copies) {}
  PeerPuts(const PeerPuts&) = delete;
  PeerPuts& operator=(const PeerPuts&) = delete;

  // Adds a kPut or kSignal of a local rank. kInvalidArgument: it exceeds the peer's window.
  // kFailedPrecondition: that window is closed.
  absl::Status Add(const OpenMessage& call);
  // The lane has all of the transfer: the pair's next call may be sent.
  absl::Status Posted(const OpenMessage& call);

  // Whether the lane must keep the slice, which OnSlice has just taken: it waits to be copied into
  // its window, or behind one that does. Then PollCopies releases it.
  bool Keeps(const ArrivingSlice& slice) const { return copies_.Keeps(slice); }
  // Ends the copies of a lane that are complete. Returns true if anything moved. Errors: as
  // OnSlice.
  absl::StatusOr<bool> PollCopies(int lane);
  // Slices of the lane are kept.
  bool has_kept(int lane) const { return copies_.has_kept(lane); }
  // No process copies into a window.
  bool quiescent() const { return copies_.quiescent(); }
  // The communicator has failed: without further PollCopies, quiescent() becomes true soon,
  // whatever the processes do.
  void Abandon() { copies_.Abandon(); }
  // This rank has left: what waits for its windows counts as copied soon.
  void AbandonFor(Rank rank) { copies_.AbandonFor(rank); }
  // Appends the oldest slice of each lane that a process has not copied.
  void AddUncopied(WaitingCalls& waiting) const { copies_.AddUncopied(waiting); }

  // A slice of any kind has arrived: its window, and those of earlier slices of the lane, are not
  // needed for it any more. Returns the window into which the slice is yet to be copied.
  std::optional<WindowMemory> Landed(int lane, SliceNumber number);
  // A received slice of a put or signal, and Landed's result. Errors: kDataLoss if the peer breaks
  // the protocol; else as for WindowPort::FindInWindow.
  using Slice = ArrivingSlice;
  absl::Status OnSlice(const Slice& slice, std::optional<WindowMemory> window = std::nullopt);
  // Finds the destination of an arriving slice's payload. False: it goes into its slot, and OnSlice
  // returns the error.
  std::optional<RegionSpan> FindDestination(const Slice& slice);
  // Answers pending window requests of the peer for windows that have since been registered or can
  // no longer be. Returns true if it sent an answer. Call it after a window was opened or closed,
  // or a rank left.
  bool SendWindowReplies();
  // A lane has one of these answers.
  void WindowReplyPosted() { --unposted_replies_; }

  // The lane is receiving into the window of `rank`; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const;
  // Appends the call of each pair that waits for its window.
  void AddUnmatched(WaitingCalls& waiting) const;
  // A call for `rank`, which has left, that the lane does not have yet; null if there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  // The peer's windows that have been requested.
  using WindowKey = std::pair<Rank, uint64_t>;
  struct CachedWindow {
    bool requested = false;  // requested, not answered
    WindowView view;
    std::vector<RankPair> waiting;  // pairs whose front calls need the answer
  };
  struct Pair {
    std::deque<OpenMessage> calls;
    bool out = false;  // the front call is being transferred
  };
  // A slice that is being received into a window.
  struct Arriving {
    SliceNumber number = 0;
    Rank rank;
    WindowMemory window;  // held until it has arrived
    uint64_t window_number = 0;
    bool copied = false;  // it lands elsewhere, and is copied into the window
    std::shared_ptr<const void> reached = nullptr;  // LaneEnd::Reach: a NIC writes the window
  };

  // A slice that has arrived or will before the next one is yet to be copied into this memory.
  bool CopiesInto(const RegionSpan& memory) const;
  // Sends the pair's front call if possible.
  absl::Status Start(Pair& pair);
  // Sends a request if the window is not known yet.
  CachedWindow& FindOrRequestWindow(const RankPair& pair, uint64_t window);
  absl::Status OnPayload(const Slice& slice, std::optional<WindowMemory> window);
  // All of the slice is in its window.
  absl::Status OnInWindow(const Slice& slice);
  absl::Status OnWindowRequest(const MessageTag& tag);
  absl::Status OnWindowReply(const MessageTag& tag);
  bool SendWindowReply(const MessageTag& ask);

  const Options options_;
  absl::flat_hash_map<RankPair, Pair> outgoing_;
  absl::flat_hash_map<Rank, std::vector<RankPair>> outgoing_to_;  // its keys, by the peer's rank
  absl::flat_hash_map<WindowKey, CachedWindow> windows_;
  size_t answered_ = 0;                      // number of answered entries
  std::vector<MessageTag> window_requests_;  // requests of the peer without a reply
  size_t unposted_replies_ = 0;              // replies that no lane has yet
  // By lane, in the order of their numbers; at most the slots of a lane.
  std::vector<std::deque<Arriving>> arriving_;
  WindowCopies copies_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_PEER_PUTS_H_
