#include "service/transport/rdma/pair_proof.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace mccs::wire {
namespace {

static_assert(std::is_same_v<PairName, Secret>);

// HMAC-SHA256, shortened.
std::array<uint8_t, 16> Hash(const PairName& name, std::span<const uint8_t> text) {
  const std::array<uint8_t, kProofBytes> whole = KeyedHash(name, text);
  std::array<uint8_t, 16> hash;
  std::copy_n(whole.begin(), hash.size(), hash.begin());
  return hash;
}

// Texts of different lengths: none is a frame's.
constexpr uint8_t kIdText[] = {'i', 'd'};
constexpr uint8_t kFailureText[] = {'f', 'a', 'i', 'l', 'e', 'd'};

}  // namespace

PairId IdOf(const PairName& name) { return Hash(name, kIdText); }

PairProof FailureProof(const PairName& name) { return Hash(name, kFailureText); }

PairProof FrameProof(const PairName& name, const PairFrame& frame, const Nonce& senders,
                     const Nonce& receivers) {
  PairFrame proven = frame;
  proven.proof = {};
  std::array<uint8_t, sizeof(PairFrame) + 2 * kNonceBytes> text;
  std::memcpy(text.data(), &proven, sizeof(proven));
  std::copy(senders.begin(), senders.end(), text.begin() + sizeof(proven));
  std::copy(receivers.begin(), receivers.end(), text.begin() + sizeof(proven) + kNonceBytes);
  return Hash(name, text);
}

bool Equal(const PairProof& a, const PairProof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace mccs::wire
