// The header fields by which switches distinguish flows.
#ifndef MCCS_TOPOLOGY_FIVE_TUPLE_H_
#define MCCS_TOPOLOGY_FIVE_TUPLE_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mccs {

// IP protocol numbers. TCP lanes use TCP; RDMA lanes (RoCEv2) use UDP to port 4791.
inline constexpr uint8_t kProtocolTcp = 6;
inline constexpr uint8_t kProtocolUdp = 17;

// IPv4 only. Addresses are numbers, not bytes on the wire: 10.0.0.1 is 0x0a000001.
struct FiveTuple {
  uint32_t source_address = 0;
  uint32_t destination_address = 0;
  uint8_t protocol = kProtocolTcp;
  uint16_t source_port = 0;
  uint16_t destination_port = 0;

  friend auto operator<=>(const FiveTuple&, const FiveTuple&) = default;
};

// "10.0.0.1" as a number; nothing: not a numeric IPv4 address.
std::optional<uint32_t> ParseIpv4(std::string_view text);
// The reverse.
std::string FormatIpv4(uint32_t address);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_FIVE_TUPLE_H_
