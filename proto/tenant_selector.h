// Maps processes to Tenants. Daemons use it for quotas and the controller for policies. Pure.
#ifndef MCCS_PROTO_TENANT_SELECTOR_H_
#define MCCS_PROTO_TENANT_SELECTOR_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace mccs {

// A process that has connected to one of the daemon's sockets.
struct ProcessOrigin {
  std::string tenant_name;  // the socket's tenant; on the default socket "uid 1000"
  std::string cgroup;       // path in /proc/PID/cgroup, from / on; empty: unknown

  friend auto operator<=>(const ProcessOrigin&, const ProcessOrigin&) = default;
};

// The daemons' name for a user without a socket of its own.
std::string UserTenantName(uint32_t uid);

// Selects the processes of a Tenant. No duplicate entries.
struct TenantSelector {
  std::vector<uint32_t> uids;        // on the default socket
  std::vector<std::string> sockets;  // `tenant` of sockets in mccsd's configuration
  std::vector<std::string> cgroups;  // including their descendants

  friend bool operator==(const TenantSelector&, const TenantSelector&) = default;
};

// Precedence of `who` for a process of this origin; the Tenant with the highest value gets it. 0:
// no match. A socket precedes a control group, of which the innermost counts, and that a user. Two
// Tenants never have equal precedence, if they have no entry in common.
uint64_t MatchPrecedence(const TenantSelector& who, const ProcessOrigin& origin);

// Returns the element of `candidates`, a list, with the highest precedence for this origin; null:
// no match. `who_of` returns a candidate's selector; null: the candidate is not a Tenant.
// LIFETIME: the result points into the list.
template <typename Candidates, typename WhoOf>
auto FindMatch(const Candidates& candidates, const ProcessOrigin& origin, WhoOf who_of)
    -> decltype(&*candidates.begin()) {
  decltype(&*candidates.begin()) found = nullptr;
  uint64_t firmest = 0;
  for (const auto& candidate : candidates) {
    const TenantSelector* who = who_of(candidate);
    const uint64_t claim = who != nullptr ? MatchPrecedence(*who, origin) : 0;
    if (claim <= firmest) continue;
    firmest = claim;
    found = &candidate;
  }
  return found;
}

}  // namespace mccs

#endif  // MCCS_PROTO_TENANT_SELECTOR_H_
