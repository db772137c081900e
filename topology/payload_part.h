// How much of a link's rate can be tenants' data. Pure.
#ifndef MCCS_TOPOLOGY_PAYLOAD_PART_H_
#define MCCS_TOPOLOGY_PAYLOAD_PART_H_

#include <cstdint>

namespace mccs {

// Of a link whose both directions are full of lanes, as rings fill them, with packets of up to
// `mtu_bytes`: payload over all bytes of one direction, as queues and counters of Ethernet devices
// see them (without preamble and checksum).
// REQUIRES: a Topology's MTU.
double PayloadPart(int32_t mtu_bytes);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_PAYLOAD_PART_H_
