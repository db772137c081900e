// Maps processes to Tenants. Daemons use it for quotas and the controller for policies. Also the
// sockets that Tenants declare. Pure.
#ifndef MCCS_PROTO_TENANT_SELECTOR_H_
#define MCCS_PROTO_TENANT_SELECTOR_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mccs {

// A process that has connected to one of the daemon's sockets.
struct ProcessOrigin {
  // The socket's tenant; at a socket that a Tenant declares, the Tenant's name; at the default
  // socket "uid 1000".
  std::string tenant_name;
  std::string cgroup;  // path in /proc/PID/cgroup, from / on; empty: unknown

  friend auto operator<=>(const ProcessOrigin&, const ProcessOrigin&) = default;
};

// The daemons' name for a user without a socket of its own.
std::string UserTenantName(uint32_t uid);
// Whether `tenant_name` is such a name.
bool IsUserTenantName(const std::string& tenant_name);

// The Tenant of all processes that no other Tenant selects.
inline constexpr char kDefaultTenant[] = "default";

// Selects the processes of a Tenant. No duplicate entries.
struct TenantSelector {
  std::vector<uint32_t> uids;        // on the default socket
  std::vector<std::string> sockets;  // `tenant` of sockets in mccsd's configuration
  std::vector<std::string> cgroups;  // patterns (proto/cgroup_pattern.h)
  // `tenant_name` at the sockets that the Tenant declares; empty: it declares none.
  std::string declared = {};
  bool unclaimed = false;  // also each process that no other Tenant selects: Tenant kDefaultTenant

  friend bool operator==(const TenantSelector&, const TenantSelector&) = default;
};

// A socket that a Tenant declares: each daemon opens it in its directory for them.
struct DeclaredSocket {
  std::string path;                  // relative to that directory; see WhyNotSocketPath
  uint32_t mode = 0660;              // of the file
  std::optional<uint32_t> uid = {};  // owner of the file; absent: the daemon's user
  std::optional<uint32_t> gid = {};  // absent: the daemon's group

  friend bool operator==(const DeclaredSocket&, const DeclaredSocket&) = default;
};

// Why `path` is not allowed for a DeclaredSocket: "expected …"; empty: it is.
std::string WhyNotSocketPath(const std::string& path);

// Precedence of `selector` for a process of this origin; the process belongs to the Tenant with the
// highest one. 0: no match. Order: socket, then control group (the innermost match; a path before a
// pattern), then user, then `unclaimed`. Two Tenants without a common entry, and without patterns
// that have a common path, never have equal precedence.
uint64_t MatchPrecedence(const TenantSelector& selector, const ProcessOrigin& origin);

// The captures of the pattern that selects the process: "12-3", "1000/7". The limits of a Tenant
// hold for each such text by itself. Empty: there are none.
std::string CapturesOf(const TenantSelector& selector, const ProcessOrigin& origin);

// Returns the element of `candidates`, a list, with the highest precedence for this origin; null:
// no match. `selector_of` returns a candidate's selector; null: the candidate is not a Tenant.
// LIFETIME: the result points into the list.
template <typename Candidates, typename SelectorOf>
auto FindMatch(const Candidates& candidates, const ProcessOrigin& origin, SelectorOf selector_of)
    -> decltype(&*candidates.begin()) {
  decltype(&*candidates.begin()) found = nullptr;
  uint64_t highest = 0;
  for (const auto& candidate : candidates) {
    const TenantSelector* selector = selector_of(candidate);
    const uint64_t precedence = selector != nullptr ? MatchPrecedence(*selector, origin) : 0;
    if (precedence <= highest) continue;
    highest = precedence;
    found = &candidate;
  }
  return found;
}

}  // namespace mccs

#endif  // MCCS_PROTO_TENANT_SELECTOR_H_
