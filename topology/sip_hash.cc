#include "topology/sip_hash.h"

#include <bit>

namespace mccs {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }

  void Absorb(uint64_t word) {
    v3 ^= word;
    Rounds(2);
    v0 ^= word;
  }
};

// Up to eight bytes, least significant first.
uint64_t LittleEndian(std::span<const std::byte> bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return word;
}

}  // namespace

uint64_t SipHash24(std::array<uint64_t, 2> key, std::span<const std::byte> data) {
  SipState state = {.v0 = key[0] ^ 0x736f6d6570736575,
                    .v1 = key[1] ^ 0x646f72616e646f6d,
                    .v2 = key[0] ^ 0x6c7967656e657261,
                    .v3 = key[1] ^ 0x7465646279746573};
  const uint64_t length = data.size();
  for (; data.size() >= 8; data = data.subspan(8)) state.Absorb(LittleEndian(data.first(8)));
  state.Absorb(LittleEndian(data) | length << 56);
  state.v2 ^= 0xff;
  state.Rounds(4);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace mccs
