// The hash by which a Linux router chooses among equal next hops of an IPv4 packet that it
// forwards, with
//
//   net.ipv4.fib_multipath_hash_policy = 3    (fields of our choice)
//   net.ipv4.fib_multipath_hash_fields = 55   (kHashAllFields)
//   net.ipv4.fib_multipath_hash_seed = SEED   (Linux 6.11 on; not zero)
//
// on a little-endian machine. What is hashed, by SipHash-2-4 with the seed twice in each half of
// the key (source: Linux, fib_multipath_hash() and flow_hash_from_keys_seed()):
//
//    0       2        3        4                            28     30     32       36   40   44 48
//   ┌───────┬────────┬────────┬────────────────────────────┬──────┬──────┬────────┬────┬────┬────┐
//   │ 0     │protocol│ 0      │ 0 (labels, VLANs, key ids) │port 1│port 2│ 0 ICMP │ A1 │ A2 │ 0  │
//   └───────┴────────┴────────┴────────────────────────────┴──────┴──────┴────────┴────┴────┴────┘
//
// Ports and addresses in network byte order, each pair with the one first that is smaller when its
// bytes are read as a little-endian number: both directions of a flow get one hash. tests/unit/
// topology/linux_multipath_hash_test.cc compares with the running kernel.
#ifndef MCCS_TOPOLOGY_LINUX_MULTIPATH_HASH_H_
#define MCCS_TOPOLOGY_LINUX_MULTIPATH_HASH_H_

#include <cstddef>
#include <cstdint>

#include "topology/five_tuple.h"

namespace mccs {

// The bits of net.ipv4.fib_multipath_hash_fields that name parts of the five-tuple.
inline constexpr uint32_t kHashSourceAddress = 1 << 0;
inline constexpr uint32_t kHashDestinationAddress = 1 << 1;
inline constexpr uint32_t kHashProtocol = 1 << 2;
inline constexpr uint32_t kHashSourcePort = 1 << 4;
inline constexpr uint32_t kHashDestinationPort = 1 << 5;
inline constexpr uint32_t kHashAllFields = kHashSourceAddress | kHashDestinationAddress |
                                           kHashProtocol | kHashSourcePort | kHashDestinationPort;

// 31 bits. `fields` are the bits above; parts that are not named count as zero.
uint32_t LinuxMultipathHash(const FiveTuple& flow, uint32_t fields, uint32_t seed);

// Which of `next_hops` equal ones of the same weight the kernel takes, in the order of the route.
// REQUIRES: next_hops > 0.
size_t LinuxNextHop(uint32_t hash, size_t next_hops);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_LINUX_MULTIPATH_HASH_H_
