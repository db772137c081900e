#include "topology/payload_fraction.h"

namespace mccs {
namespace {

constexpr double kEthernetBytes = 14;
constexpr double kIpAndTcpBytes = 20 + 32;  // IPv4; TCP with timestamps

// Headers of slices (48 bytes each) and acknowledgements of the opposite direction: TCP's, one per
// delivery to the receiver (up to 64 KiB; 66 bytes), and lanes', one per slice. Measured on
// saturated links of the lab: 99.05 % of all bytes were payload at MTU 9000, 95.46 % at 1500. A
// receiver that acknowledges every second packet uses 2 % at MTU 1500.
constexpr double kHeadersAndAcknowledgements = 0.002;

}  // namespace

double PayloadFraction(int32_t mtu_bytes) {
  return (mtu_bytes - kIpAndTcpBytes) / (mtu_bytes + kEthernetBytes) *
         (1 - kHeadersAndAcknowledgements);
}

}  // namespace mccs
