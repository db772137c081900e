#include "topology/linux_multipath_hash.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

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

namespace {

constexpr size_t kProtocolAt = 2, kPortsAt = 28, kAddressesAt = 36, kKeyBytes = 48;

// Writes two numbers of the packet to `out`, with the pair's smaller little-endian number first.
template <typename Int>
void PutPair(Int source, Int destination, std::byte* out) {
  if (destination < source) std::swap(source, destination);
  std::memcpy(out, &source, sizeof(Int));
  std::memcpy(out + sizeof(Int), &destination, sizeof(Int));
}

// Jenkins' lookup3 (source: Bob Jenkins, 2006, public domain) of one word and a zero, initialized
// as in Linux' jhash_2words().
uint32_t JenkinsHash(uint32_t word) {
  constexpr uint32_t kStart = 0xdeadbeef + (2 << 2);
  uint32_t a = word + kStart, b = kStart, c = kStart;
  const auto mix = [](uint32_t& x, uint32_t y, int bits) {
    x ^= y;
    x -= std::rotl(y, bits);
  };
  mix(c, b, 14);
  mix(a, c, 11);
  mix(b, a, 25);
  mix(c, b, 16);
  mix(a, c, 4);
  mix(b, a, 14);
  mix(c, b, 24);
  return c;
}

}  // namespace

uint32_t LinuxMultipathHash(const FiveTuple& flow, uint32_t fields, uint32_t seed) {
  static_assert(std::endian::native == std::endian::little);
  const auto chosen = [&](uint32_t field, auto value) {
    return (fields & field) != 0 ? value : decltype(value){0};
  };
  std::array<std::byte, kKeyBytes> key{};
  key[kProtocolAt] = std::byte{chosen(kHashProtocol, flow.protocol)};
  PutPair<uint16_t>(chosen(kHashSourcePort, htons(flow.source_port)),
                    chosen(kHashDestinationPort, htons(flow.destination_port)), &key[kPortsAt]);
  PutPair<uint32_t>(chosen(kHashSourceAddress, htonl(flow.source_address)),
                    chosen(kHashDestinationAddress, htonl(flow.destination_address)),
                    &key[kAddressesAt]);
  const uint64_t half = uint64_t{seed} << 32 | seed;
  const auto hash = static_cast<uint32_t>(SipHash24({half, half}, key));
  return JenkinsHash(hash == 0 ? 1 : hash) >> 1;
}

size_t LinuxNextHop(uint32_t hash, size_t next_hops) {
  // The kernel assigns to hop i all hashes below 2³¹ (i + 1) / n, rounded.
  const auto bound = [&](size_t i) {
    return ((uint64_t{i + 1} << 31) + next_hops / 2) / next_hops;
  };
  // Rounding changes a bound by at most one.
  size_t hop = std::min(static_cast<size_t>(uint64_t{hash} * next_hops >> 31), next_hops - 1);
  if (hop > 0 && hash < bound(hop - 1)) --hop;
  if (hop + 1 < next_hops && hash >= bound(hop)) ++hop;
  return hop;
}

}  // namespace mccs
