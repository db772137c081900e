// Formats and parses numbers with units, for logs, tools and benchmarks.
#ifndef MCCS_BASE_UNITS_H_
#define MCCS_BASE_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mccs {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// "512 B", "1.5 KiB", "16 MiB": binary multiples, at most two decimals.
std::string FormatBytes(uint64_t bytes);

// "4096", "512 B", "16MiB", "64M", "1.5 GiB": the formats of FormatBytes, a bare number, and binary
// prefixes without unit. Nothing for other input: a negative or fractional number of bytes, a
// decimal unit, more than 64 bits.
std::optional<uint64_t> ParseBytes(std::string_view text);

// "50 Gbit/s", "187.5 Mbit/s", "0 bit/s": SI prefixes, at most three decimals.
std::string FormatBitRate(double bits_per_second);

// "50Gbit/s", "2.5 Gbit/s", "200Mbps", "9600bps" in bit/s, exactly. Nothing for other input: a
// number without unit, a negative one, a fraction of a bit, more than 64 bits.
std::optional<uint64_t> ParseBitRate(std::string_view text);

// "850 ms", "12 s", "3 min 5 s", "2 h 10 min", "4 d 1 h": the two largest nonzero units.
std::string FormatAge(int64_t ns);

// "4.25 ms", "0.5 ms": at most four significant digits.
std::string FormatMilliseconds(int64_t ns);

}  // namespace mccs

#endif  // MCCS_BASE_UNITS_H_
