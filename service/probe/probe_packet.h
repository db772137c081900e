// Packets that find the path of a flow: switches forward them like the flow's own, but their TTL
// ends at a given switch; and the answer of that switch (ICMP "time exceeded", RFC 792).
//
//   IPv4  TTL = switches to pass │ TCP SYN of the flow's ports, sequence number = token
//         DF, id                 │ or UDP of the flow's ports, id and checksum = token
//
// The TCP or UDP checksums are wrong, so a packet that reaches the peer is dropped there: it opens
// no connection and affects none. Switches do not check them.
//
// Pure. Received bytes are untrusted.
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
  uint32_t token = 0;  // identifies the answer; neither half is 0 (IsToken)
};

constexpr bool IsToken(uint32_t value) { return (value >> 16) != 0 && (value & 0xffff) != 0; }

// A whole IPv4 packet. The kernel fills in the header checksum.
std::vector<std::byte> BuildProbe(const ProbePacket& packet);

struct ProbeAnswer {
  uint32_t from = 0;  // the answering address
  FiveTuple flow;     // of the dropped packet
  uint32_t token = 0;
};

// Parses a whole IPv4 packet from a raw socket. Nothing: it is not such an answer, or damaged. The
// quoted header may have more options than the packet sent, and its checksum may be stale.
std::optional<ProbeAnswer> ParseProbeAnswer(std::span<const std::byte> packet);

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_PROBE_PACKET_H_
