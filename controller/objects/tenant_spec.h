// `kind: Tenant`: who it is, and what it is entitled to.
//
//   who:                          # at least one; no two tenants may have the same
//     uids: [1000, 1001]          # processes of these users, at the common socket
//     sockets: [team-a]           # `tenant` of a socket in mccsd's configuration
//     cgroups: [/jobs/team-a]
//   weight: 2                     # 0.000001 to 1000000 [1]
//   guarantee: 10Gbps             # [none]
//   cap: 40Gbps                   # [none]
//   priority: 5                   # 0 to 7, the highest first [0]
//   quotas:                       # on each host [none]
//     communicators: 16
//     memory: 64GiB
//     operations: 8               # collectives at work
#ifndef MCCS_CONTROLLER_OBJECTS_TENANT_SPEC_H_
#define MCCS_CONTROLLER_OBJECTS_TENANT_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/yaml_config.h"
#include "proto/tenant_who.h"

namespace YAML {
class Emitter;
}

namespace mccs {

inline constexpr uint32_t kHighestTenantPriority = 7;
// So far apart weights are that parts by them are figures still.
inline constexpr double kLowestWeight = 1e-6, kHighestWeight = 1e6;

struct TenantSpec : TenantWho {
  double weight = 1;
  std::optional<uint64_t> guarantee_bps;
  std::optional<uint64_t> cap_bps;
  uint32_t priority = 0;

  // On one host.
  std::optional<uint64_t> max_communicators;
  std::optional<uint64_t> max_memory_bytes;
  std::optional<uint64_t> max_operations;  // at work

  friend bool operator==(const TenantSpec&, const TenantSpec&) = default;
};

// What is wrong with it is told by Finish() of `spec`'s document.
TenantSpec ReadTenantSpec(YamlReader spec);

// As a mapping that ReadTenantSpec reads as the same.
void Emit(const TenantSpec& spec, YAML::Emitter* out);

// "uids 1000, 1001; socket team-a".
std::string WhoText(const TenantSpec& spec);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_TENANT_SPEC_H_
