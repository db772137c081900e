// Figures with their units, as logs, tools and benchmarks print them.
#ifndef MCCS_BASE_UNITS_H_
#define MCCS_BASE_UNITS_H_

#include <cstdint>
#include <string>

namespace mccs {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// "512 B", "1.5 KiB", "16 MiB": binary multiples, at most two decimals.
std::string FormatBytes(uint64_t bytes);

}  // namespace mccs

#endif  // MCCS_BASE_UNITS_H_
