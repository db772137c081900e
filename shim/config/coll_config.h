// ncclCollConfig_t, the last argument of the …Config variants of the collectives (NCCL 2.32): the
// options of one call. Declared here because MCCS builds with an older header.
#ifndef MCCS_SHIM_CONFIG_COLL_CONFIG_H_
#define MCCS_SHIM_CONFIG_COLL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/call_options.h"

namespace mccs::shim {

// ncclConfigExt_t: a vendor's option, in a linked list.
struct ConfigExtension {
  const ConfigExtension* next;
  int vendor;
  int option;
  union {
    int i;
    const char* s;
    void* raw;
  } value;
};
static_assert(sizeof(ConfigExtension) == 24 && offsetof(ConfigExtension, value) == 16);

// ncclCollConfig_v23200. Later versions append fields.
struct CollConfig {
  size_t size;
  unsigned magic;
  unsigned version;
  const ConfigExtension* extensions;
  int min_ctas;
  int max_ctas;
  int nvls_ctas;
  int cluster_size;
  const char* algorithms;
  int force_algorithms;
  int cta_policy;
  uint64_t profiler_tag;
  void* launch_event;
};
static_assert(sizeof(CollConfig) == 72 && offsetof(CollConfig, algorithms) == 40 &&
              offsetof(CollConfig, launch_event) == 64);

// More options than all vendors together have: a longer list is circular.
inline constexpr int kMaxConfigExtensions = 1024;

// The call's options for MCCS; defaults for NULL. Ignores other vendors' options. Channels,
// algorithm and profiler tag are hints without effect. kInvalidArgument: not initialised, or an
// invalid value of a field or an MCCS option; kUnimplemented: a launch event, which would never be
// recorded.
absl::StatusOr<CallOptions> ReadCollConfig(std::string_view function, const CollConfig* config);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_COLL_CONFIG_H_
