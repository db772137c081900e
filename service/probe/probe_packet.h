// Packets that find out which way a flow takes: like the flow's own to every switch, but that they
// live for a few switches only; and what a switch says of the one that died there (ICMP "time
// exceeded", RFC 792).
//
//   IPv4  TTL = switches to pass │ TCP SYN of the flow's ports, sequence number = token
//         DF, id                 │ or UDP of the flow's ports, id and checksum = token
//
// Their checksums above IP are wrong: were one to come as far as the peer, it would be dropped
// there unseen, so that it opens nothing and touches no connection. Switches do not look at them.
//
// Pure. Bytes that are parsed are anybody's.
#ifndef MCCS_SERVICE_PROBE_PROBE_PACKET_H_
#define MCCS_SERVICE_PROBE_PROBE_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topology/five_tuple.h"

namespace mccs {

struct ProbePacket {
  FiveTuple flow;  // TCP or UDP
  uint8_t ttl = 1;
  uint32_t token = 0;  // to know the answer by; neither half is 0 (IsToken)
};

constexpr bool IsToken(uint32_t value) { return (value >> 16) != 0 && (value & 0xffff) != 0; }

// A whole IPv4 packet. The kernel fills in the sum of its header.
std::vector<std::byte> BuildProbe(const ProbePacket& packet);

struct ProbeAnswer {
  uint32_t from = 0;  // who answers
  FiveTuple flow;     // of the packet that died
  uint32_t token = 0;
};

// From a whole IPv4 packet, as a raw socket gives it. Nothing: it is no such answer, or damaged.
// The header that it quotes may have more options than ours had, and its checksum may be stale.
std::optional<ProbeAnswer> ParseProbeAnswer(std::span<const std::byte> packet);

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_PROBE_PACKET_H_
