// SipHash-2-4 (source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012).
#ifndef MCCS_TOPOLOGY_SIP_HASH_H_
#define MCCS_TOPOLOGY_SIP_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mccs {

// `key` as two little-endian numbers.
uint64_t SipHash24(std::array<uint64_t, 2> key, std::span<const std::byte> data);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SIP_HASH_H_
