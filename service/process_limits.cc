#include "service/process_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "base/descriptor_limit.h"
#include "base/physical_memory.h"

namespace mccs {
namespace {

// Of the daemon: libraries, listeners, descriptors of messages that it has not handled yet
// (ForeignDescriptors), and handshakes. At most a quarter, if the system allows few.
constexpr uint64_t kOwnDescriptors = 8192 + 2048;
// Of the daemon: libraries, stacks, heap.
constexpr uint64_t kOwnMappings = 4096;
constexpr uint64_t kUsualMappings = 65530;  // of Linux

uint64_t Without(uint64_t all, uint64_t own) { return all - std::min(own, all / 4); }

// That this process may lock.
uint64_t LockableBytes() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? std::min<uint64_t>(PhysicalBytes(), limit.rlim_cur) : PhysicalBytes();
}

// vm.max_map_count
uint64_t AllowedMappings() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  uint64_t allowed = 0;
  return file >> allowed ? allowed : kUsualMappings;
}

}  // namespace

void RaiseLockedMemory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_MEMLOCK, &limit);
}

void RaiseProcessLimits(Log& log) {
  RaiseDescriptorLimit(log);
  RaiseLockedMemory();
}

HostLimits LimitsOfMachine(HostLimits configured) {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    configured[Resource::kDescriptors] = Without(descriptors.rlim_cur, kOwnDescriptors);
  configured[Resource::kMappings] = Without(AllowedMappings(), kOwnMappings);
  const auto set_default = [&](Resource resource, uint64_t bytes) {
    if (configured[resource] == 0) configured[resource] = bytes;
  };
  set_default(Resource::kLaneMemory, PhysicalBytes() / 2);
  set_default(Resource::kPlanMemory, PhysicalBytes() / 8);
  set_default(Resource::kPinnedMemory, LockableBytes() / 2);
  set_default(Resource::kMappedBytes, HostLimits{}[Resource::kMappedBytes]);
  return configured;
}

}  // namespace mccs
