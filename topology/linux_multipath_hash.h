// The hash by which a Linux router chooses among equal next hops, and the SipHash-2-4 under it.
#ifndef MCCS_TOPOLOGY_LINUX_MULTIPATH_HASH_H_
#define MCCS_TOPOLOGY_LINUX_MULTIPATH_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "topology/five_tuple.h"

namespace mccs {

// SipHash-2-4 (source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012).
// `key` as two little-endian numbers.
uint64_t SipHash24(std::array<uint64_t, 2> key, std::span<const std::byte> data);

// The hash by which a Linux router chooses among equal next hops of an IPv4 packet that it
// forwards, with
//
//   net.ipv4.fib_multipath_hash_policy = 3    (selected fields)
//   net.ipv4.fib_multipath_hash_fields = 55   (kHashAllFields)
//   net.ipv4.fib_multipath_hash_seed = SEED   (Linux 6.11 or later; not zero)
//
// on a little-endian machine. It is SipHash-2-4 over these bytes, with the seed twice in each half
// of the key (source: Linux, fib_multipath_hash() and flow_hash_from_keys_seed()):
//
//    0       2        3        4                            28     30     32       36   40   44 48
//   ┌───────┬────────┬────────┬────────────────────────────┬──────┬──────┬────────┬────┬────┬────┐
//   │ 0     │protocol│ 0      │ 0 (labels, VLANs, key ids) │port 1│port 2│ 0 ICMP │ A1 │ A2 │ 0  │
//   └───────┴────────┴────────┴────────────────────────────┴──────┴──────┴────────┴────┴────┴────┘
//
// Ports and addresses are in network byte order. Of each pair, the value that is smaller as a
// little-endian number is first, so both directions of a flow have the same hash.
// tests/unit/topology/linux_multipath_hash_test.cc compares it with the running kernel.

// Bits of net.ipv4.fib_multipath_hash_fields for the five-tuple.
inline constexpr uint32_t kHashSourceAddress = 1 << 0;
inline constexpr uint32_t kHashDestinationAddress = 1 << 1;
inline constexpr uint32_t kHashProtocol = 1 << 2;
inline constexpr uint32_t kHashSourcePort = 1 << 4;
inline constexpr uint32_t kHashDestinationPort = 1 << 5;
inline constexpr uint32_t kHashAllFields = kHashSourceAddress | kHashDestinationAddress |
                                           kHashProtocol | kHashSourcePort | kHashDestinationPort;

// Returns 31 bits. `fields`: the bits above; other parts of the tuple count as zero.
uint32_t LinuxMultipathHash(const FiveTuple& flow, uint32_t fields, uint32_t seed);

// Index of the chosen next hop, of `next_hops` with equal weight, in the order of the route.
// REQUIRES: next_hops > 0.
size_t LinuxNextHop(uint32_t hash, size_t next_hops);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_LINUX_MULTIPATH_HASH_H_
