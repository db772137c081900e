// Messages between two daemons over an authenticated stream: a 4-byte length in network order, then
// a peer.proto Message. One call reads and writes a limited number of bytes, whatever the peer
// sends.
//
// OWNER: the user of the link. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_PEER_LINK_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_PEER_LINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/peer.pb.h"
#include "service/host_budget.h"
#include "service/transport/network.h"

namespace mccs {

// A roster of 10,000 ranks has about 1 MiB.
inline constexpr uint32_t kMaxPeerMessageBytes = 8u << 20;
// Limits for the first message, which identifies the daemon (Hello), and for one rank (Join). A
// link buffers a message until it is complete, and a tenant may open many links.
inline constexpr uint32_t kMaxHelloBytes = 64;
inline constexpr uint32_t kMaxJoinMessageBytes = 16u << 10;
// Limit of queued data for a peer that does not read.
inline constexpr size_t kMaxPeerBacklogBytes = 32u << 20;

// Messages read from one link in one turn of the engine, for fairness.
inline constexpr int kPeerMessagesPerTurn = 64;
// Bytes that one call of PeerLink::Receive reads, and that one of Poll writes, at most.
inline constexpr size_t kPeerBytesPerCall = 256u << 10;

// A message as it is sent, with its length. Links share it: one for many peers is stored once.
using PeerFrame = std::shared_ptr<const std::string>;
PeerFrame MakeFrame(const peer::Message& message);

// Converts a peer's failure. ENSURES: the status is an error, and its message is one line.
absl::Status StatusFromPeer(uint32_t code, const std::string& text);

// Shortens a text that goes to other hosts to kMaxPeerTextBytes.
std::string CutPeerText(const std::string& text);
inline constexpr size_t kMaxPeerTextBytes = 2048;

// Announces that nothing more will succeed; StatusFromPeer reads it at the other end.
peer::Message FailedMessage(const absl::Status& why);

class PeerLink {
 public:
  // Accepts messages of at most `most_bytes`, and never more than kMaxPeerMessageBytes.
  explicit PeerLink(std::unique_ptr<Connection> connection,
                    uint32_t most_bytes = kMaxPeerMessageBytes)
      : connection_(std::move(connection)), most_bytes_(most_bytes) {}
  // Keeps the share of its descriptor as long as it exists.
  void Keep(BudgetShare share) { share_.emplace(std::move(share)); }
  // Applies from the next message on.
  void Allow(uint32_t most_bytes) { most_bytes_ = most_bytes; }
  // Wakes `waker` when the link has work for Poll or Receive. LIFETIME: it outlives the link.
  void SetWaker(Waker* waker) { connection_->SetWaker(waker); }

  // Queues a message, which Poll sends. Drops it after an error; see status().
  void Queue(PeerFrame frame);
  // Likewise, and sends what the stream accepts now.
  void Send(PeerFrame frame);
  void Send(const peer::Message& message) { Send(MakeFrame(message)); }

  // The next message; nothing if none has arrived, or if the rest takes more calls (has_work). A
  // broken stream or a protocol error is permanent.
  absl::StatusOr<std::optional<peer::Message>> Receive();

  // Sends queued bytes. Returns true if any were sent.
  bool Poll();

  // Poll or Receive would do something now, although no further event wakes the waker.
  bool has_work() const {
    return !status_.ok() || connection_->readable() || (!flushed() && connection_->writable());
  }
  absl::Status status() const { return status_; }
  bool flushed() const { return outgoing_.empty(); }
  // Bytes read and written so far.
  uint64_t moved_bytes() const { return moved_bytes_; }
  // Bytes of an incomplete message.
  size_t buffered_bytes() const { return incoming_.size(); }
  Endpoint remote() const { return connection_->remote(); }

 private:
  absl::StatusOr<size_t> WriteSome(size_t most);
  absl::Status Fill();

  std::optional<BudgetShare> share_;
  std::unique_ptr<Connection> connection_;
  uint32_t most_bytes_;
  absl::Status status_;
  std::deque<PeerFrame> outgoing_;
  size_t backlog_ = 0;  // bytes of outgoing_
  size_t sent_ = 0;     // bytes of the first frame that are sent
  std::string incoming_;
  uint64_t moved_bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_PEER_LINK_H_
