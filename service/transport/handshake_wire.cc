#include "service/transport/handshake_wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>

#include "base/check.h"

namespace mccs::wire {
namespace {

constexpr size_t kSideBytes = 16;
constexpr char kClientSide[kSideBytes] = "mccs client";
constexpr char kServerSide[kSideBytes] = "mccs server";

}  // namespace

std::array<uint8_t, kProofBytes> KeyedHash(const Secret& key, std::span<const uint8_t> text) {
  std::array<uint8_t, kProofBytes> hash;
  unsigned int length = 0;
  const uint8_t* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(),
                             text.size(), hash.data(), &length);
  MCCS_CHECK(done != nullptr && length == hash.size());
  return hash;
}

Proof MakeProof(const Secret& secret, ProofSide side, const PeerHello& hello,
                const Nonce& server_nonce) {
  std::array<uint8_t, kSideBytes + sizeof(PeerHello) + kNonceBytes> text;
  uint8_t* to = text.data();
  std::memcpy(to, side == ProofSide::kClient ? kClientSide : kServerSide, kSideBytes);
  std::memcpy(to + kSideBytes, &hello, sizeof(hello));
  std::memcpy(to + kSideBytes + sizeof(hello), server_nonce.data(), kNonceBytes);

  return KeyedHash(secret, text);
}

bool ProofsEqual(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace mccs::wire
