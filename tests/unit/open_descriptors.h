// How many descriptors this process has open, for tests that look for leaks.
#ifndef MCCS_TESTS_UNIT_OPEN_DESCRIPTORS_H_
#define MCCS_TESTS_UNIT_OPEN_DESCRIPTORS_H_

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace mccs {

// Includes one of its own, by which it counts.
inline size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_OPEN_DESCRIPTORS_H_
