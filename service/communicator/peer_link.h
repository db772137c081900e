// Messages between two daemons over an authenticated stream: a 4-byte length in network order, then
// a peer.proto Message.
//
// OWNER: whoever speaks. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_PEER_LINK_H_
#define MCCS_SERVICE_COMMUNICATOR_PEER_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/peer.pb.h"
#include "service/transport/network.h"

namespace mccs {

// A roster of 10,000 ranks has about 1 MiB.
inline constexpr uint32_t kMaxPeerMessageBytes = 8u << 20;
// What a daemon says before it is known who it is (Hello), and about one of its ranks (Join). A
// link holds a message until it is whole, and a tenant may open many.
inline constexpr uint32_t kMaxHelloBytes = 64;
inline constexpr uint32_t kMaxGuestMessageBytes = 16u << 10;
// What may wait for a peer that does not read.
inline constexpr size_t kMaxPeerBacklogBytes = 32u << 20;

// Messages that one link may have heard in one turn of the engine; the others want theirs.
inline constexpr int kPeerMessagesPerTurn = 64;

// A failure that a peer tells of: never OK, whatever its code, and one line.
absl::Status StatusFromPeer(uint32_t code, const std::string& text);

// "Nothing more will succeed, because": what StatusFromPeer reads at the other end.
peer::Message FailedMessage(const absl::Status& why);

class PeerLink {
 public:
  // Takes messages of at most `most_bytes`, and at most kMaxPeerMessageBytes.
  explicit PeerLink(std::unique_ptr<Connection> connection,
                    uint32_t most_bytes = kMaxPeerMessageBytes)
      : connection_(std::move(connection)), most_bytes_(most_bytes) {}
  // From the next message on.
  void Allow(uint32_t most_bytes) { most_bytes_ = most_bytes; }

  // Queues a message; Poll sends it. After an error it is dropped: see status().
  void Send(const peer::Message& message);

  // The next message; nothing when none has come. A broken stream, or a peer that breaks the
  // protocol, is an error and sticks.
  absl::StatusOr<std::optional<peer::Message>> Receive();

  // Moves queued bytes. True when any moved.
  bool Poll();

  absl::Status status() const { return status_; }
  bool flushed() const { return sent_ == outgoing_.size(); }
  Endpoint remote() const { return connection_->remote(); }

 private:
  absl::Status Fill();

  std::unique_ptr<Connection> connection_;
  uint32_t most_bytes_;
  absl::Status status_;
  std::string outgoing_;
  size_t sent_ = 0;  // of outgoing_
  std::string incoming_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_PEER_LINK_H_
