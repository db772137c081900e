// How two daemons make sure, at the start of a connection, that they speak the same protocol and
// that both were given the same communicator's secret. See handshake_wire.h for the bytes.
//
//   ClientHandshake:  kSendHello → kAwaitChallenge → kSendProof → done
//   ServerHandshake:  kAwaitHello → kAwaitSecret → kSendChallenge → kAwaitProof → done
//                          │              │
//                          └──────────────┴──► kRefuse (tells the client why) → error
//
// Poll answers with the connection when the handshake is done, with nothing while it goes on, and
// with a Status when it has failed: the connection is closed then, and Poll must not be called
// again.
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
  kJoin = 1,    // a daemon with ranks of a communicator comes to its rendezvous
  kMember = 2,  // the communicator's leader and a member
  kLane = 3,    // one lane; its sender opens the connection
};

// What a connection is for.
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

// The client's side: whoever opened the connection.
class ClientHandshake {
 public:
  // REQUIRES: `random` outlives this.
  ClientHandshake(std::unique_ptr<Connection> connection, const Preamble& preamble,
                  const Secret& secret, Random& random, MonotonicNs deadline);

  // Errors: kUnavailable (connection broken), kDeadlineExceeded, kNotFound (the server knows no
  // such communicator), kPermissionDenied (the secrets differ, or refused), kFailedPrecondition
  // (another version or another protocol). ENSURES on a connection: the server holds the secret. It
  // may still close the connection.
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
  size_t bytes_ = 0;  // of the present message
  wire::PeerHello hello_{};
  wire::PeerChallenge challenge_{};
  wire::Proof proof_{};
};

// The secret of the communicator that a client names: nothing when it is not known yet (the client
// may be faster than whoever tells us), an error when this client has no business here. It is asked
// once, and again when it is said to know more (LookAgain): anybody may name what never comes.
// The client is not proven yet: nothing may be changed on its word.
using SecretLookup = std::function<absl::StatusOr<std::optional<Secret>>(const Preamble&)>;

struct ServerPatience {
  int64_t answer_ns = 5 * kNsPerSec;   // for the client to say what it wants, and to prove it
  int64_t lookup_ns = 30 * kNsPerSec;  // for the communicator to become known here
};

class ServerHandshake {
 public:
  // LIFETIME: `lookup` and `random` outlive this.
  ServerHandshake(std::unique_ptr<Connection> connection, const SecretLookup& lookup,
                  Random& random, const ServerPatience& patience, MonotonicNs now);

  // ENSURES on a connection: the client holds the secret, and preamble() is what it wants.
  absl::StatusOr<std::unique_ptr<Connection>> Poll(MonotonicNs now);

  // REQUIRES: the handshake is done, or awaits_secret().
  const Preamble& preamble() const { return preamble_; }
  // REQUIRES: the handshake is done.
  const Secret& secret() const { return secret_; }
  // The client has named what nobody here knows yet: Poll has nothing to do before the deadline.
  bool awaits_secret() const { return state_ == State::kAwaitSecret; }
  // But now the lookup may know it.
  void LookAgain() { look_ = true; }
  // The client's address.
  const std::string& source() const { return source_; }
  // Poll has something to do then, though no byte may arrive.
  MonotonicNs deadline() const { return deadline_; }

 private:
  enum class State { kAwaitHello, kAwaitSecret, kSendChallenge, kAwaitProof, kRefuse, kDone };

  absl::StatusOr<bool> Step(MonotonicNs now);
  absl::StatusOr<bool> AwaitHello(MonotonicNs now);
  absl::StatusOr<bool> AwaitSecret(MonotonicNs now);
  absl::StatusOr<bool> AwaitProof();
  absl::Status CheckMagic() const;
  absl::Status Late() const;
  void Refuse(MonotonicNs now, wire::PeerVerdict verdict, absl::Status why);

  std::unique_ptr<Connection> connection_;
  const SecretLookup& lookup_;
  Random& random_;
  const ServerPatience patience_;
  const std::string source_;
  MonotonicNs deadline_;  // of the present state
  State state_ = State::kAwaitHello;
  bool look_ = true;  // the lookup has not been asked since it may know
  size_t bytes_ = 0;
  wire::PeerHello hello_{};
  wire::PeerChallenge challenge_{};
  wire::Proof proof_{};
  Preamble preamble_;
  Secret secret_{};
  absl::Status refusal_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_HANDSHAKE_H_
