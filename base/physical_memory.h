// The memory of this machine.
#ifndef MCCS_BASE_PHYSICAL_MEMORY_H_
#define MCCS_BASE_PHYSICAL_MEMORY_H_

#include <unistd.h>

#include <cstdint>

namespace mccs {

inline uint64_t PhysicalBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace mccs

#endif  // MCCS_BASE_PHYSICAL_MEMORY_H_
