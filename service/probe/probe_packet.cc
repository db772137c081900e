#include "service/probe/probe_packet.h"

namespace mccs {
namespace {

// RFC 791, 9293, 768, 792.
constexpr size_t kIpHeader = 20, kTcpHeader = 20, kUdpHeader = 8, kIcmpHeader = 8;
constexpr size_t kQuoted = 8;  // minimum bytes after the quoted IP header
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kTimeExceeded = 11, kInTransit = 0;
constexpr uint16_t kDontFragment = 0x4000, kFragmentOffset = 0x1fff;
constexpr uint8_t kSyn = 0x02;
// Makes a valid checksum invalid: not 0 in one's complement.
constexpr uint16_t kInvalidateChecksum = 0x5555;

using Bytes = std::span<const std::byte>;

void Put8(std::vector<std::byte>* out, uint8_t value) { out->push_back(std::byte{value}); }
void Put16(std::vector<std::byte>* out, uint16_t value) {
  Put8(out, static_cast<uint8_t>(value >> 8));
  Put8(out, static_cast<uint8_t>(value & 0xff));
}
void Put32(std::vector<std::byte>* out, uint32_t value) {
  Put16(out, static_cast<uint16_t>(value >> 16));
  Put16(out, static_cast<uint16_t>(value & 0xffff));
}

// REQUIRES: within `bytes`.
uint8_t Get8(Bytes bytes, size_t at) { return std::to_integer<uint8_t>(bytes[at]); }
uint16_t Get16(Bytes bytes, size_t at) {
  return static_cast<uint16_t>(Get8(bytes, at) << 8 | Get8(bytes, at + 1));
}
uint32_t Get32(Bytes bytes, size_t at) {
  return uint32_t{Get16(bytes, at)} << 16 | Get16(bytes, at + 2);
}

// One's complement of the one's complement sum (RFC 1071).
uint16_t Checksum(Bytes bytes, uint32_t sum = 0) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += Get16(bytes, i);
  if (bytes.size() % 2 != 0) sum += uint32_t{Get8(bytes, bytes.size() - 1)} << 8;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint32_t PseudoHeaderSum(const FiveTuple& flow, size_t bytes) {
  return (flow.source_address >> 16) + (flow.source_address & 0xffff) +
         (flow.destination_address >> 16) + (flow.destination_address & 0xffff) + flow.protocol +
         static_cast<uint32_t>(bytes);
}

std::vector<std::byte> Tcp(const ProbePacket& packet, uint16_t checksum) {
  std::vector<std::byte> out;
  Put16(&out, packet.flow.source_port);
  Put16(&out, packet.flow.destination_port);
  Put32(&out, packet.token);
  Put32(&out, 0);                                         // acknowledgement number
  Put8(&out, static_cast<uint8_t>(kTcpHeader / 4 << 4));  // header length in words
  Put8(&out, kSyn);
  Put16(&out, 0xffff);  // window
  Put16(&out, checksum);
  Put16(&out, 0);  // urgent pointer
  return out;
}

std::vector<std::byte> Udp(const ProbePacket& packet) {
  std::vector<std::byte> out;
  Put16(&out, packet.flow.source_port);
  Put16(&out, packet.flow.destination_port);
  Put16(&out, kUdpHeader);
  Put16(&out, static_cast<uint16_t>(packet.token & 0xffff));
  return out;
}

// The length of the IPv4 header at the front, with its options; 0: invalid or truncated.
size_t IpHeader(Bytes packet) {
  if (packet.size() < kIpHeader || Get8(packet, 0) >> 4 != 4) return 0;
  const size_t length = size_t{Get8(packet, 0)} % 16 * 4;
  return length >= kIpHeader && length <= packet.size() ? length : 0;
}

}  // namespace

std::vector<std::byte> BuildProbe(const ProbePacket& packet) {
  const FiveTuple& flow = packet.flow;
  std::vector<std::byte> payload;
  if (flow.protocol == kProtocolTcp) {
    const std::vector<std::byte> bare = Tcp(packet, 0);
    const uint16_t right = Checksum(bare, PseudoHeaderSum(flow, bare.size()));
    payload = Tcp(packet, right ^ kInvalidateChecksum);
  } else {
    payload = Udp(packet);
  }
  std::vector<std::byte> out;
  Put8(&out, 4 << 4 | kIpHeader / 4);
  Put8(&out, 0);  // class of service
  Put16(&out, static_cast<uint16_t>(kIpHeader + payload.size()));
  Put16(&out, static_cast<uint16_t>(packet.token >> 16));
  Put16(&out, kDontFragment);
  Put8(&out, packet.ttl);
  Put8(&out, flow.protocol);
  Put16(&out, 0);  // checksum, by the kernel
  Put32(&out, flow.source_address);
  Put32(&out, flow.destination_address);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

std::optional<ProbeAnswer> ParseProbeAnswer(std::span<const std::byte> packet) {
  const size_t outer = IpHeader(packet);
  if (outer == 0 || Get8(packet, 9) != kProtocolIcmp) return std::nullopt;
  if ((Get16(packet, 6) & kFragmentOffset) != 0) return std::nullopt;
  const size_t total = Get16(packet, 2);
  if (total < outer || total > packet.size()) return std::nullopt;
  const Bytes icmp = packet.subspan(outer, total - outer);
  if (icmp.size() < kIcmpHeader || Get8(icmp, 0) != kTimeExceeded || Get8(icmp, 1) != kInTransit ||
      Checksum(icmp) != 0)
    return std::nullopt;
  const Bytes quoted = icmp.subspan(kIcmpHeader);
  const size_t inner = IpHeader(quoted);
  if (inner == 0 || quoted.size() < inner + kQuoted) return std::nullopt;
  if ((Get16(quoted, 6) & kFragmentOffset) != 0) return std::nullopt;
  const Bytes ports = quoted.subspan(inner);
  ProbeAnswer answer;
  answer.from = Get32(packet, 12);
  answer.flow = {.source_address = Get32(quoted, 12),
                 .destination_address = Get32(quoted, 16),
                 .protocol = Get8(quoted, 9),
                 .source_port = Get16(ports, 0),
                 .destination_port = Get16(ports, 2)};
  if (answer.flow.protocol == kProtocolTcp) {
    answer.token = Get32(ports, 4);
  } else if (answer.flow.protocol == kProtocolUdp) {
    answer.token = uint32_t{Get16(quoted, 4)} << 16 | Get16(ports, 6);
  } else {
    return std::nullopt;
  }
  return answer;
}

}  // namespace mccs
