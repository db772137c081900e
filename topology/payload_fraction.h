// The part of a link's rate that can carry tenants' data. Pure.
#ifndef MCCS_TOPOLOGY_PAYLOAD_FRACTION_H_
#define MCCS_TOPOLOGY_PAYLOAD_FRACTION_H_

#include <cstdint>

namespace mccs {

// For a link with both directions full of lanes, as in rings, and packets of up to `mtu_bytes`:
// payload divided by all bytes of one direction, as queues and counters of Ethernet devices count
// them (without preamble and checksum).
// REQUIRES: a Topology's MTU.
double PayloadFraction(int32_t mtu_bytes);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_PAYLOAD_FRACTION_H_
