// Puts and signals between the ranks of this host and those of one other host. They share lanes
// with the messages between the two (PeerMessages, message_tag.h).
//
//   host of the source                             host of the window
//   first put ── kAskWindow{window} ─────────────►
//                                    ◄──────────── kWindow{bytes}, once its rank has registered it
//   put ──────── kPut{window, offset}, bytes … ──►  read straight into the window
//      and last  kSignal{…}, the rest of them ───►  counted when all of it is there
//
// The calls of one ordered pair of ranks go out one after the other. A lane keeps its order: when a
// signal is counted, all data of the pair's earlier puts is in place.
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
#include "service/messages/outbox.h"
#include "service/messages/signal_counts.h"
#include "service/transport/lane.h"

namespace mccs {

class PeerPuts {
 public:
  struct Options {
    SignalCounts* signals = nullptr;
    // The port of a rank of this host; null when it has left.
    std::function<const RankPort*(Rank)> port_of = {};
    // Whether the pair's source is one of the peer's ranks and its destination one of ours; and the
    // other way round.
    std::function<bool(const RankPair&)> may_come = {};
    std::function<bool(const RankPair&)> may_go = {};
  };

  // LIFETIME: `outbox` and what the options point to outlive it.
  PeerPuts(Options options, Outbox& outbox) : options_(std::move(options)), outbox_(outbox) {}
  PeerPuts(const PeerPuts&) = delete;
  PeerPuts& operator=(const PeerPuts&) = delete;

  // A kPut or kSignal of a local rank. kInvalidArgument: it leaves the peer's window;
  // kFailedPrecondition: that window is gone.
  absl::Status Add(const OpenMessage& call);
  // The whole of the transfer is in the lane's hands: the pair's next call may go out.
  absl::Status Posted(const OpenMessage& call);

  // A slice of the peer's, of one of our kinds, that landed. Errors: kDataLoss, where the peer
  // breaks the protocol; else as RankPort::FindInWindow.
  struct Slice {
    SliceNumber number = 0;
    MessageTag tag = {};
    uint32_t bytes = 0;
    Landing landing = Landing::kInSlot;
  };
  absl::Status Hear(const Slice& slice);
  // Where the payload of the arriving slice goes; nothing: in its slot, and Hear says why.
  bool Place(const Slice& slice, std::vector<MemRef>& pieces);
  // Answers what the peer has asked and our ranks have registered, or will not any more, since
  // they were asked. True when it did. For when a window or a rank has come or gone.
  bool Answer();

  // The lane reads into a window of `rank`: that one, or with 0 any.
  bool WritesInto(Rank rank, uint64_t window) const;
  // Appends the call of each pair that waits for its window.
  void AddUnanswered(std::vector<OpenMessage>& unanswered) const;
  // A call for `rank`, which has left, that is not with the lane yet; null: there is none.
  const OpenMessage* WaitingFor(Rank rank) const;

 private:
  // Windows of the peer's ranks, as far as they have been asked for.
  using WindowKey = std::pair<Rank, uint64_t>;
  struct Known {
    bool asked = false;  // and not answered
    WindowView view;
    std::vector<RankPair> waiting;  // whose front calls need the answer
  };
  struct Pair {
    std::deque<OpenMessage> calls;
    bool out = false;  // the front one is a transfer
  };
  // A slice that is being read into a window.
  struct Arriving {
    SliceNumber number = 0;
    MessageTag tag = {};
    std::shared_ptr<const void> window;  // held
  };

  // Hands the pair's front call out, if it can go.
  absl::Status Start(Pair& pair);
  // Nothing known yet: asks.
  Known& LookAt(const RankPair& pair, uint64_t window);
  absl::Status HearPayload(const Slice& slice);
  absl::Status HearAsk(const MessageTag& tag);
  absl::Status HearWindow(const MessageTag& tag);
  bool AnswerOne(const MessageTag& ask);

  const Options options_;
  Outbox& outbox_;
  absl::flat_hash_map<RankPair, Pair> outgoing_;
  absl::flat_hash_map<WindowKey, Known> windows_;
  size_t answered_ = 0;           // of them
  std::vector<MessageTag> asks_;  // of the peer, not answered
  std::deque<Arriving> arriving_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_PEER_PUTS_H_
