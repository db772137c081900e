// The resources of a daemon that tenants share (service/host_budget.h).
#ifndef MCCS_SERVICE_RESOURCE_H_
#define MCCS_SERVICE_RESOURCE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace mccs {

enum class Resource : uint8_t {
  kProcesses,      // connected
  kCommunicators,  // with a rank on this host
  kForming,        // those of them that are not complete
  kDescriptors,    // of files: sockets of processes, control links, lanes, listeners
  kMappings,       // in the daemon's address space: buffers, memory of ranks and lanes
  kLaneMemory,     // bytes
  kPlanMemory,     // bytes of plans, built and loaded
  kUniqueIds,      // made here, and no host has joined yet
  kPinnedMemory,   // bytes of tenants' memory on this host that NICs have registered
  kMappedBytes,    // of the daemon's address space, for registered buffers
};
inline constexpr size_t kResources = 10;

struct ResourceFacts {
  const char* label;   // in metrics
  const char* noun;    // in errors, for several of them
  const char* remedy;  // what the tenant can do
  const char* key;     // below `limits` in mccsd's configuration; null: the system sets the limit
  const char* system;  // then: what sets it
  bool bytes;
};

// By Resource.
inline constexpr std::array<ResourceFacts, kResources> kResourceFacts = {{
    {"processes", "connected processes", "end unused processes", "processes", nullptr, false},
    {"communicators", "communicators", "destroy unused communicators", "communicators", nullptr,
     false},
    {"forming", "communicators that are forming", "start the missing ranks, or abort",
     "forming_communicators", nullptr, false},
    {"descriptors", "file descriptors", "destroy unused communicators", nullptr,
     "LimitNOFILE in mccsd's unit", false},
    {"mappings", "memory mappings", "free buffers, or destroy unused communicators", nullptr,
     "the sysctl vm.max_map_count", false},
    {"lane_memory", "memory of lanes", "destroy unused communicators", "lane_memory", nullptr,
     true},
    {"plan_memory", "memory of plans", "destroy unused communicators", "plan_memory", nullptr,
     true},
    {"unique_ids", "unused unique ids", "use the ids that ncclGetUniqueId returned", "unique_ids",
     nullptr, false},
    {"pinned_memory", "memory pinned for NICs", "free buffers in host memory", "pinned_memory",
     nullptr, true},
    {"mapped_bytes", "address space of buffers", "free buffers", "mapped_bytes", nullptr, true},
}};

constexpr const ResourceFacts& FactsOf(Resource resource) {
  return kResourceFacts[static_cast<size_t>(resource)];
}

}  // namespace mccs

#endif  // MCCS_SERVICE_RESOURCE_H_
