// The first bytes on every connection between daemons.
//
//   client                                       server
//   PeerHello {identity, purpose, nonce}      ──►
//                                         ◄──    PeerChallenge {verdict, nonce, proof}
//   Proof                                 ──►
//   … as defined by the purpose           ◄─►    … from here on
//
// Each proof is an HMAC-SHA256, keyed with the communicator's secret, over a label of the
// direction, the whole PeerHello and the server's nonce. So each side knows that the other has the
// secret now, for this connection. Nothing is encrypted: an attacker on the network path can change
// the bytes that follow.
//
// Little-endian, no padding.
#ifndef MCCS_SERVICE_TRANSPORT_HANDSHAKE_WIRE_H_
#define MCCS_SERVICE_TRANSPORT_HANDSHAKE_WIRE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "proto/unique_id.h"

namespace mccs::wire {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kPeerMagic = 0x52454550'5343434dull;  // "MCCSPEER"
inline constexpr uint32_t kPeerVersion = 1;
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
  kRejected = 3,  // the reason is only in the server's log: the client is not authenticated
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
std::array<uint8_t, kProofBytes> KeyedHash(const Secret& key, std::span<const uint8_t> text);

enum class ProofSide : uint8_t { kClient, kServer };

// `side`: the maker of the proof.
Proof MakeProof(const Secret& secret, ProofSide side, const PeerHello& hello,
                const Nonce& server_nonce);

// Compares in constant time.
bool ProofsEqual(const Proof& a, const Proof& b);

}  // namespace mccs::wire

#endif  // MCCS_SERVICE_TRANSPORT_HANDSHAKE_WIRE_H_
