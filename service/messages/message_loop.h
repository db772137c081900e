// The sends, receives and one-sided calls of one communicator on this host: taken from the ranks,
// matched pair by pair, transferred and completed. Only the two ranks of a call affect it.
//
// clang-format off
//   MessagePort::TakeMessage ─┬─ both ends on this host ─► LocalExchange ─► device
//                             ├─ other end on another host ─► PeerMessages of that host ─► lanes
//                             ├─ puts ─► LocalPuts, or PeerPuts within PeerMessages
//                             └─ waits for signals ─► SignalCounts, which puts increment
// clang-format on
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
#include "base/ids.h"
#include "service/communicator/links/rank_port.h"
#include "service/counters.h"
#include "service/messages/local_exchange.h"
#include "service/messages/local_puts.h"
#include "service/messages/peer_messages.h"
#include "service/messages/signal_counts.h"

namespace mccs {

class MessageLoop {
 public:
  struct Options {
    std::span<const HostIndex> host_of;  // by Rank; outlives the loop
    int hosts = 0;
    HostIndex self;
    uint32_t slice_bytes = 0;  // of the lanes
    uint32_t slots = 0;        // likewise
    // A message lane to a host; opens it on first use.
    std::function<SendLane*(HostIndex, int lane)> open_lane;
    // Memory of the lanes, for what arrives for windows on GPUs.
    std::function<absl::StatusOr<std::shared_ptr<Region>>(uint64_t bytes)> allocate = {};
    int most_lanes = 1;  // to a host
    // The home lane of a pair of ranks; there are `home_lanes` of them, at most `most_lanes`.
    int home_lanes = 1;
    std::function<int(const RankPair&)> home_of = {};
    int channels = 1;            // of the strategy at first
    WorkTally* tally = nullptr;  // outlives the loop
  };

  // `ranks`: by LocalIndex. LIFETIME: ranks, device and lanes outlive the loop.
  MessageLoop(Device& device, Options options, std::span<const LocalRank> ranks);

  // A host has opened a message lane to this host.
  void AddLane(HostIndex from, int lane, RecvLane& receive) { PeerAt(from).Attach(lane, receive); }
  // The strategy has another number of channels: later receives are announced over all of them.
  void SetChannels(int channels) { channels_ = channels; }

  // Advances messages. Returns true if anything moved. An error ends the communicator: mismatched
  // calls (kFailedPrecondition), an invalid record (kInvalidArgument), or a peer that breaks the
  // protocol (kDataLoss).
  absl::StatusOr<bool> Poll();

  // Data is being transferred.
  bool busy() const;
  // A rank has posted messages that its streams have not reached; they ring no doorbell.
  bool awaits_streams() const;
  // A local rank has incomplete messages.
  bool has_pending_calls() const;
  // The device holds no memory of a tenant. Lanes may hold some until they are destroyed, while
  // messages are incomplete.
  bool quiescent() const;
  // The device and kernels copy nothing between ranks of this host. Processes may copy.
  bool locally_quiescent() const { return local_.quiescent() && local_puts_.device_quiescent(); }
  // The communicator has failed: without further Poll(), quiescent() becomes true soon, if the
  // processes copy what they were asked to.
  void Stop() {
    local_.Stop();
    local_puts_.Stop();
  }
  // The communicator has failed: without further Poll(), quiescent() becomes true soon, whatever
  // the processes do. They may still read what they copy, and write into their windows.
  void AbandonCopies();
  // Local rank `rank` has left: puts into its windows end soon, whatever its process does. It may
  // still read what it copies, and write into its windows.
  void AbandonCopiesFor(Rank rank);

  // A put into the window of local rank `rank` is in progress; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const;
  // A put writes into a window of local rank `rank`, or a process copies from its memory.
  bool UsesMemoryOf(Rank rank) const {
    return WritesInto(rank, /*window=*/0) || local_puts_.ProcessReadsFrom(rank);
  }

  // Grows when DescribeUnmatched may find other calls than before.
  uint64_t changes() const { return changes_; }

  uint64_t completed() const { return completed_; }
  uint64_t bytes() const { return bytes_; }  // sent and received by ranks of this host

  // Calls of local ranks that wait for the other end, puts that processes have not copied into
  // their windows, and what may be in the midst of a transfer to or from another host, in parts
  // from 0 on: a look at all of them may be too long for a turn. A receive from another host waits
  // until its first bytes arrive.
  size_t waiting_parts() const { return kLocalParts + peers_.size(); }
  void AddWaiting(size_t part, WaitingCalls& waiting) const;

  // Number of messages that local rank `rank` has posted so far.
  std::vector<MessageCount> CountsOf(Rank rank) const;
  // The call that waits for a call of `rank`, which left after posting `counts`, in ascending order
  // of peers; empty: none. The cost does not depend on calls that wait for other ranks.
  std::string DescribeUnmatched(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  // Of AddWaiting, before those of the other hosts.
  static constexpr size_t kLocalParts = 3;

  // Returns true if there were any.
  absl::StatusOr<bool> TakeCalls();
  // Returns their number.
  absl::StatusOr<int> TakeCallsOf(const LocalRank& local);
  absl::Status Add(const LocalRank& local, const PostedMessage& call);
  absl::flat_hash_map<RankPair, uint64_t>& CounterOf(OpKind kind);
  PeerMessages& PeerAt(HostIndex host);
  // If any window was opened or closed, makes waiting calls check again. Returns true if anything
  // moved.
  bool CheckWindows();
  // Null: the rank is not on this host, or has left.
  const WindowPort* PortOf(Rank rank) const;
  // Nothing: there is no such rank.
  std::optional<HostIndex> HostOf(Rank rank) const;
  void CompleteAll();

  const Options options_;
  Device& device_;
  const std::span<const LocalRank> ranks_;
  std::vector<const LocalRank*> local_of_;  // by Rank; null: not a rank of this host
  std::vector<uint64_t> window_changes_;    // by LocalIndex, as last seen
  LocalExchange local_;
  SignalCounts signals_;
  LocalPuts local_puts_;
  MessageLaneTurns lane_turns_;
  std::vector<std::unique_ptr<PeerMessages>> peers_;  // by HostIndex; null until needed
  int channels_;                                      // of the strategy
  // Total calls taken from local ranks, by pair.
  absl::flat_hash_map<RankPair, uint64_t> sends_, receives_, puts_, waits_;
  std::vector<OpenMessage> done_;  // scratch memory
  size_t next_rank_ = 0;           // index in ranks_, first in the next TakeCalls
  uint64_t changes_ = 0;
  uint64_t completed_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_LOOP_H_
