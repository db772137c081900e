// The first bytes on every connection between daemons.
//
//   client                                       server
//   PeerHello {who, what for, nonce}          ──►
//                                         ◄──    PeerChallenge {verdict, nonce, proof}
//   Proof                                 ──►
//   … what the purpose says               ◄─►    … from here on
//
// Each proof is an HMAC-SHA256, keyed with the communicator's secret, over a word for the
// direction, the whole PeerHello and the server's nonce. So either side knows that the other holds
// the secret, now, and means this very connection. Nothing is encrypted: who can change packets on
// the way can change what follows.
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

// Magic and version stay where they are in every version, and so does the size of a PeerHello.
struct PeerHello {
  uint64_t magic;  // kPeerMagic
  uint32_t version;
  uint8_t purpose;  // ConnectionPurpose
  uint8_t reserved0[3];
  uint64_t comm_id;
  uint64_t epoch;  // lanes; else 0, as the three below
  int32_t channel;
  int32_t from_host;  // HostIndex of the lane's sender
  int32_t to_host;    // HostIndex of the lane's receiver
  uint32_t reserved1;
  Nonce nonce;
};
static_assert(sizeof(PeerHello) == 64 && offsetof(PeerHello, comm_id) == 16 &&
              offsetof(PeerHello, nonce) == 48 && std::is_trivially_copyable_v<PeerHello>);

enum class PeerVerdict : uint32_t {
  kWelcome = 0,
  kWrongVersion = 1,         // PeerChallenge::version says which one the server speaks
  kUnknownCommunicator = 2,  // and it did not appear while the server waited
  kRefused = 3,              // the server knows why; it tells nobody unproven
};

struct PeerChallenge {
  uint64_t magic;       // kPeerMagic
  uint32_t version;     // the server's
  PeerVerdict verdict;  // nonce and proof are zero unless kWelcome
  Nonce nonce;
  Proof proof;
};
static_assert(sizeof(PeerChallenge) == 64 && offsetof(PeerChallenge, nonce) == 16 &&
              offsetof(PeerChallenge, proof) == 32 && std::is_trivially_copyable_v<PeerChallenge>);

// HMAC-SHA256.
std::array<uint8_t, kProofBytes> KeyedHash(const Secret& key, std::span<const uint8_t> text);

enum class ProofSide : uint8_t { kClient, kServer };

// `side`: whose proof it is.
Proof MakeProof(const Secret& secret, ProofSide side, const PeerHello& hello,
                const Nonce& server_nonce);

// In a time that does not depend on where they differ.
bool SameProof(const Proof& a, const Proof& b);

}  // namespace mccs::wire

#endif  // MCCS_SERVICE_TRANSPORT_HANDSHAKE_WIRE_H_
