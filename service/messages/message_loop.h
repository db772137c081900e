// The sends, receives and one-sided calls of one communicator on this host: taken from the ranks,
// matched pair by pair, moved, and completed. They wait for nobody who takes no part in them.
//
//   RankPort::TakeMessage ─┬─ both ends on this host ─► LocalExchange ─► device
//                          ├─ the other end elsewhere ─► PeerMessages of that host ─► its lanes
//                          ├─ puts, likewise ─► LocalPuts, or PeerPuts within PeerMessages
//                          └─ waits for signals ─► SignalCounts, which puts count up
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_MESSAGE_LOOP_H_
#define MCCS_SERVICE_MESSAGES_MESSAGE_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "algorithms/plan.h"
#include "service/communicator/rank_port.h"
#include "service/messages/local_exchange.h"
#include "service/messages/local_puts.h"
#include "service/messages/peer_messages.h"
#include "service/messages/signal_counts.h"
#include "service/work_tally.h"

namespace mccs {

class MessageLoop {
 public:
  struct Options {
    Layout layout;
    HostIndex self;
    uint32_t slice_bytes = 0;  // of the lanes
    // The lane for messages to a host, opened if need be.
    std::function<SendLane*(HostIndex)> open_lane;
    WorkTally* tally = nullptr;  // outlives the loop
  };

  // `ranks` by LocalIndex; they, the device and the lanes outlive the loop.
  MessageLoop(Device& device, Options options, std::span<const LocalRank> ranks);

  // A host has opened its lane for messages to us.
  void AddLane(HostIndex from, RecvLane& lane) { PeerAt(from).Attach(lane); }

  // Moves messages on. True when anything moved. An error ends the communicator: calls that do not
  // fit together (kFailedPrecondition), a bad record (kInvalidArgument), a peer that breaks the
  // protocol (kDataLoss).
  absl::StatusOr<bool> Poll();

  // Bytes are on the move.
  bool busy() const;
  // A rank has posted messages that its streams have not reached; they ring no bell.
  bool awaits_streams() const;
  // A local rank has messages that are not complete.
  bool wants_more() const;
  // No memory of a tenant is in the device's hands. The lanes' hands: until they are gone, where
  // messages are open.
  bool quiescent() const { return local_.quiescent() && local_puts_.quiescent(); }

  // A put that goes on writes into a window of `rank`, a local one: that window, or with 0 any.
  bool WritesInto(Rank rank, uint64_t window) const;

  uint64_t completed() const { return completed_; }
  uint64_t bytes() const { return bytes_; }  // sent and received by ranks of this host

  // Of each pair of ranks, the oldest call of a local one that waits for its other end; a receive
  // of another host's does so until its first bytes are there.
  std::vector<OpenMessage> Unanswered() const;

  // What `rank`, a local one, has posted so far.
  std::vector<MessageCount> CountsOf(Rank rank) const;
  // The call that waits in vain for `rank`, which left after it had posted `counts`; empty: none.
  std::string DescribeUnanswered(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  absl::StatusOr<bool> TakeCalls(const LocalRank& local);
  absl::Status Add(const LocalRank& local, const PostedMessage& call);
  absl::flat_hash_map<RankPair, uint64_t>& CounterOf(OpKind kind);
  PeerMessages& PeerAt(HostIndex host);
  // Tells those who wait for windows when any has come or gone. True when that moved anything.
  bool LookAtWindows();
  // Null: it is no rank of this host (any more).
  const RankPort* PortOf(Rank rank) const;
  // Nothing: there is no such rank.
  std::optional<HostIndex> HostOf(Rank rank) const;
  void CompleteAll();

  const Options options_;
  const std::span<const LocalRank> ranks_;
  // By Rank. Null: it is no rank of this host.
  std::vector<HostIndex> host_of_;
  std::vector<const LocalRank*> local_of_;
  std::vector<uint64_t> window_changes_;  // by LocalIndex, as they were last seen
  LocalExchange local_;
  SignalCounts signals_;
  LocalPuts local_puts_;
  std::vector<std::unique_ptr<PeerMessages>> peers_;  // by HostIndex; null until there is a need
  // Calls ever taken from local ranks, by pair.
  absl::flat_hash_map<RankPair, uint64_t> sends_, receives_, puts_, waits_;
  std::vector<OpenMessage> done_;  // scratch
  uint64_t completed_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_LOOP_H_
