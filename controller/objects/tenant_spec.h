// `kind: Tenant`: the mapping of processes to a tenant, and its entitlement. The Tenant `default`
// has all processes that no other Tenant selects; it needs no selector, and has all quotas.
//
//   sockets:                      # on every host, below `socket_dir` of mccsd's configuration
//   [none]
//     - {path: team-a/mccsd.sock, mode: "0660", uid: 0, gid: 1200}
//   selector:                     # at least one, unless it has sockets; each entry in one tenant
//   only
//     uids: [1000, 1001]          # processes of these users, at the default socket
//     sockets: [team-a]           # `tenant` of a socket in mccsd's configuration
//     cgroups: [/jobs/team-a, "/kubepods*/pod{uid}"]   # proto/cgroup_pattern.h
//   weight: 2                     # 0.000001 to 1000000 [1]
//   guarantee: 10Gbit/s             # [none]
//   cap: 40Gbit/s                   # [none]
//   priority: 5                   # 0 to 7, the highest first [0]
//   quotas:                       # on each host [none]
//     communicators: 16
//     memory: 64GiB
//     operations: 8               # running collectives
#ifndef MCCS_CONTROLLER_OBJECTS_TENANT_SPEC_H_
#define MCCS_CONTROLLER_OBJECTS_TENANT_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/yaml_config.h"
#include "proto/tenant_selector.h"

namespace YAML {
class Emitter;
}

namespace mccs {

inline constexpr uint32_t kHighestTenantPriority = 7;
inline constexpr size_t kMaxSocketsPerTenant = 8;
// Weights within these bounds give shares without loss of precision.
inline constexpr double kLowestWeight = 1e-6, kHighestWeight = 1e6;

struct TenantSpec : TenantSelector {
  double weight = 1;
  std::optional<uint64_t> guarantee_bps;
  std::optional<uint64_t> cap_bps;
  uint32_t priority = 0;
  std::vector<DeclaredSocket> declared_sockets;  // `sockets` in YAML

  // Per host.
  std::optional<uint64_t> max_communicators;
  std::optional<uint64_t> max_memory_bytes;
  std::optional<uint64_t> max_operations;  // running

  friend bool operator==(const TenantSpec&, const TenantSpec&) = default;
};

// `name`: of the Tenant. Errors are reported by Finish() of `spec`'s document.
TenantSpec ReadTenantSpec(YamlReader spec, const std::string& name);

// Writes a mapping that ReadTenantSpec reads as an equal spec.
void Emit(const TenantSpec& spec, YAML::Emitter* out);

// "0660".
std::string ModeText(uint32_t mode);

// "team-a/mccsd.sock (0660), other.sock (0600)"; empty: it declares none.
std::string SocketsText(const TenantSpec& spec);

// "uids 1000, 1001; socket team-a", "all others".
std::string ProcessesText(const TenantSpec& spec);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_TENANT_SPEC_H_
