// Formats numbers for documents: short, and parsed back to exactly the same value.
#ifndef MCCS_CONTROLLER_OBJECTS_EXACT_UNITS_H_
#define MCCS_CONTROLLER_OBJECTS_EXACT_UNITS_H_

#include <cstdint>
#include <string>

namespace mccs {

// "64 GiB", "1000001".
std::string ExactBytes(uint64_t bytes);

// "187.5 Mbit/s", "1234567891 bit/s".
std::string ExactBitRate(uint64_t bits_per_second);

// In the fewest digits that parse back as `value`: "2", "0.1".
std::string ExactNumber(double value);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_EXACT_UNITS_H_
