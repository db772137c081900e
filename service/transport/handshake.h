// The handshake of two daemons at the start of a connection. It verifies that they speak the same
// protocol and that both have the communicator's secret. See handshake_wire.h for the bytes.
//
// clang-format off
//   ClientHandshake:  kSendHello → kAwaitChallenge → kSendProof → done
//   ServerHandshake:  kAwaitHello → kAwaitSecret → kSendChallenge → kAwaitProof → done
//                          │              │
//                          └──────────────┴──► kReject (sends the client the verdict) → error
// clang-format on
//
// Poll returns the connection when the handshake is complete, nothing while it is in progress, and
// an error Status when it has failed. After an error the connection is closed and Poll must not be
// called again.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_HANDSHAKE_H_
#define MCCS_SERVICE_TRANSPORT_HANDSHAKE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "service/transport/handshake_wire.h"
#include "service/transport/network.h"

namespace mccs {

enum class ConnectionPurpose : uint8_t {
  kJoin = 1,    // a daemon with ranks of a communicator connects to its rendezvous
  kMember = 2,  // between the communicator's leader and a member
  kLane = 3,    // one lane; its sender opens the connection
};

// The purpose of a connection.
struct Preamble {
  ConnectionPurpose purpose = ConnectionPurpose::kJoin;
  CommId comm_id = {};
  // kLane only:
  Epoch epoch = {};
  ChannelId channel = {};
  HostIndex from_host = {};  // the lane's sender
  HostIndex to_host = {};    // the lane's receiver

  friend bool operator==(const Preamble&, const Preamble&) = default;
};

// "lane of communicator 00…2a, epoch 1, channel 0, from host 0 to host 1".
std::string ToString(const Preamble& preamble);

using wire::Secret;

// The client's side: it has opened the connection.
class ClientHandshake {
 public:
  // REQUIRES: `random` outlives this.
  ClientHandshake(std::unique_ptr<Connection> connection, const Preamble& preamble,
                  const Secret& secret, Random& random, MonotonicNs deadline);

  // Errors: kUnavailable (connection broken), kDeadlineExceeded, kNotFound (the server does not
  // know the communicator), kPermissionDenied (the secrets differ, or rejected),
  // kFailedPrecondition (another version or another protocol). ENSURES on a connection: the server
  // has the secret. It may still close the connection.
  absl::StatusOr<std::unique_ptr<Connection>> Poll(MonotonicNs now);

  MonotonicNs deadline() const { return deadline_; }

 private:
  enum class State { kSendHello, kAwaitChallenge, kSendProof, kDone };

  absl::StatusOr<bool> Step(MonotonicNs now);
  absl::Status CheckChallenge() const;

  std::unique_ptr<Connection> connection_;
  Preamble preamble_;
  Secret secret_;
  MonotonicNs deadline_;
  State state_ = State::kSendHello;
  size_t bytes_ = 0;  // of the current message
  wire::PeerHello hello_{};
  wire::PeerChallenge challenge_{};
  wire::Proof proof_{};
};

// Returns the secret of the communicator that a client names; nothing while it is not known yet
// (the client may be faster than the join of this host's ranks); an error if the client has no
// access. Called once, and again after RetryLookup, because a client may name a communicator that
// never exists. The client is not authenticated yet: the lookup must not change state.
using SecretLookup = std::function<absl::StatusOr<std::optional<Secret>>(const Preamble&)>;

struct ServerTimeouts {
  int64_t answer_ns = 5 * kNsPerSec;   // for the client's messages
  int64_t lookup_ns = 30 * kNsPerSec;  // for the communicator to become known on this host
};

class ServerHandshake {
 public:
  // LIFETIME: `lookup` and `random` outlive this.
  ServerHandshake(std::unique_ptr<Connection> connection, const SecretLookup& lookup,
                  Random& random, const ServerTimeouts& timeouts, MonotonicNs now);

  // ENSURES on a connection: the client has the secret, and preamble() is its request.
  absl::StatusOr<std::unique_ptr<Connection>> Poll(MonotonicNs now);

  // REQUIRES: the handshake is done, or awaits_secret().
  const Preamble& preamble() const { return preamble_; }
  // REQUIRES: the handshake is done.
  const Secret& secret() const { return secret_; }
  // The client has named an unknown communicator: Poll has nothing to do before the deadline.
  bool awaits_secret() const { return state_ == State::kAwaitSecret; }
  // The lookup may know the secret now.
  void RetryLookup() { lookup_due_ = true; }
  // The client's address.
  const std::string& source() const { return source_; }
  // The time at which Poll must be called even if no byte arrives.
  MonotonicNs deadline() const { return deadline_; }

 private:
  enum class State { kAwaitHello, kAwaitSecret, kSendChallenge, kAwaitProof, kReject, kDone };

  absl::StatusOr<bool> Step(MonotonicNs now);
  absl::StatusOr<bool> AwaitHello(MonotonicNs now);
  absl::StatusOr<bool> AwaitSecret(MonotonicNs now);
  absl::StatusOr<bool> AwaitProof();
  absl::Status CheckMagic() const;
  absl::Status TimeoutError() const;
  void Reject(MonotonicNs now, wire::PeerVerdict verdict, absl::Status why);

  std::unique_ptr<Connection> connection_;
  const SecretLookup& lookup_;
  Random& random_;
  const ServerTimeouts timeouts_;
  const std::string source_;
  MonotonicNs deadline_;  // of the current state
  State state_ = State::kAwaitHello;
  bool lookup_due_ = true;  // the lookup must be called (again)
  size_t bytes_ = 0;
  wire::PeerHello hello_{};
  wire::PeerChallenge challenge_{};
  wire::Proof proof_{};
  Preamble preamble_;
  Secret secret_{};
  absl::Status rejection_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_HANDSHAKE_H_
