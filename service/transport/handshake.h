// The handshake of two daemons at the start of a connection. It verifies that they speak the same
// protocol and that both have the communicator's secret. Where daemons have certificates, control
// links are secure from their first bytes on (peer_security.h), and lanes if the configuration
// demands it.
//
// clang-format off
//   ClientHandshake:  kSendMarker → kSendHello → kAwaitChallenge → kSendProof → done
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

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "proto/unique_id.h"
#include "service/transport/network.h"
#include "service/transport/peer_security.h"

namespace mccs::wire {

// The first bytes on every connection between daemons.
//
//   client                                       server
//   PeerHello {identity, purpose, nonce}      ──►
//                                         ◄──    PeerChallenge {verdict, nonce, proof}
//   Proof                                 ──►
//   … as defined by the purpose           ◄─►    … from here on
//
// On a secure connection kSecureMagic comes first, in plain, and all of this after it in TLS.
//
// Each proof is an HMAC-SHA256, keyed with the communicator's secret, over a label of the
// direction, the whole PeerHello and the server's nonce. So each side knows that the other has the
// secret now, for this connection. Without TLS an attacker on the network path can change the bytes
// that follow.
//
// Little-endian, no padding.
static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kPeerMagic = 0x52454550'5343434dull;    // "MCCSPEER"
inline constexpr uint64_t kSecureMagic = 0x31534c54'5343434dull;  // "MCCSTLS1"
inline constexpr uint32_t kPeerVersion = 2;
inline constexpr size_t kNonceBytes = 16;
inline constexpr size_t kProofBytes = 32;

using Nonce = std::array<uint8_t, kNonceBytes>;
using Proof = std::array<uint8_t, kProofBytes>;
using Secret = std::array<uint8_t, kSecretBytes>;

inline Secret SecretOf(const UniqueId& id) { return std::to_array(id.secret); }

// Magic, version and the size of PeerHello stay the same in all versions.
struct PeerHello {
  uint64_t magic;  // kPeerMagic
  uint32_t version;
  uint8_t purpose;  // ConnectionPurpose
  uint8_t reserved0[3];
  uint64_t comm_id;
  uint64_t epoch;  // lanes; else 0, like the next three fields
  int32_t channel;
  int32_t from_host;  // HostIndex of the lane's sender
  int32_t to_host;    // HostIndex of the lane's receiver
  uint32_t reserved1;
  Nonce nonce;
};
static_assert(sizeof(PeerHello) == 64 && offsetof(PeerHello, comm_id) == 16 &&
              offsetof(PeerHello, nonce) == 48 && std::is_trivially_copyable_v<PeerHello>);

enum class PeerVerdict : uint32_t {
  kAccepted = 0,
  kWrongVersion = 1,         // PeerChallenge::version is the server's
  kUnknownCommunicator = 2,  // not known within the server's timeout
  kRejected = 3,   // the reason is only in the server's log: the client is not authenticated
  kNotSecure = 4,  // the server demands certificates for this purpose
};

struct PeerChallenge {
  uint64_t magic;       // kPeerMagic
  uint32_t version;     // the server's
  PeerVerdict verdict;  // nonce and proof are zero unless kAccepted
  Nonce nonce;
  Proof proof;
};
static_assert(sizeof(PeerChallenge) == 64 && offsetof(PeerChallenge, nonce) == 16 &&
              offsetof(PeerChallenge, proof) == 32 && std::is_trivially_copyable_v<PeerChallenge>);

// HMAC-SHA256.
std::array<uint8_t, kProofBytes> KeyedHash(std::span<const uint8_t> key,
                                           std::span<const uint8_t> text);

enum class ProofSide : uint8_t { kClient, kServer };

// `side`: the maker of the proof.
Proof MakeProof(const Secret& secret, ProofSide side, const PeerHello& hello,
                const Nonce& server_nonce);

// Compares in constant time.
bool ProofsEqual(const Proof& a, const Proof& b);

}  // namespace mccs::wire

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
  // `security`: of this host; null: it has none. LIFETIME: `random` outlives this.
  ClientHandshake(std::unique_ptr<Connection> connection, const Preamble& preamble,
                  const Secret& secret, Random& random, MonotonicNs deadline,
                  PeerSecurity* security = nullptr);

  // Errors: kUnavailable (connection broken), kDeadlineExceeded, kNotFound (the server does not
  // know the communicator), kPermissionDenied (the secrets differ, or rejected), kUnauthenticated
  // (a certificate is absent or rejected), kFailedPrecondition (another version or another
  // protocol). ENSURES on a connection: the server has the secret. It may still close the
  // connection.
  absl::StatusOr<std::unique_ptr<Connection>> Poll(MonotonicNs now);

  // As Connection::SetWaker, for all connections that the handshake uses and returns.
  void SetWaker(Waker* waker);
  MonotonicNs deadline() const { return deadline_; }
  // The server has accepted the connection.
  bool opened() const { return opened_; }
  // The server's host, by its certificate; empty: the connection is not secure. REQUIRES: done.
  const std::string& peer_host() const { return peer_host_; }

 private:
  enum class State { kSendMarker, kSendHello, kAwaitChallenge, kSendProof, kDone };

  absl::StatusOr<bool> Step(MonotonicNs now);
  absl::StatusOr<bool> SendMarker();
  absl::Status CheckChallenge() const;

  std::unique_ptr<Connection> connection_;
  Preamble preamble_;
  Secret secret_;
  MonotonicNs deadline_;
  PeerSecurity* const security_;
  SecureConnection* secured_ = nullptr;  // connection_, from the marker on
  Waker* waker_ = nullptr;
  std::string peer_host_;
  State state_;
  size_t bytes_ = 0;  // of the current message
  bool opened_ = false;
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
  // `security`: of this host; null: it has none. LIFETIME: lookup, random and security outlive
  // this.
  ServerHandshake(std::unique_ptr<Connection> connection, const SecretLookup& lookup,
                  Random& random, PeerSecurity* security, const ServerTimeouts& timeouts,
                  MonotonicNs now);

  // ENSURES on a connection: the client has the secret, and preamble() is its request.
  absl::StatusOr<std::unique_ptr<Connection>> Poll(MonotonicNs now);

  // As ClientHandshake's.
  void SetWaker(Waker* waker);
  // REQUIRES: the handshake is done, or awaits_secret().
  const Preamble& preamble() const { return preamble_; }
  // REQUIRES: the handshake is done.
  const Secret& secret() const { return secret_; }
  // The client's host, by its certificate; empty: the connection is not secure.
  const std::string& peer_host() const { return peer_host_; }
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
  absl::Status CheckSecurity(const Preamble& preamble) const;
  absl::StatusOr<bool> Secure();
  absl::Status TimeoutError() const;
  void Reject(MonotonicNs now, wire::PeerVerdict verdict, absl::Status why);

  std::unique_ptr<Connection> connection_;
  const SecretLookup& lookup_;
  Random& random_;
  PeerSecurity* const security_;
  SecureConnection* secured_ = nullptr;  // connection_, from the marker on
  Waker* waker_ = nullptr;
  std::string peer_host_;
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
