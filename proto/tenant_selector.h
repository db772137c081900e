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

// Precedence of `selector` for a process of this origin; the process belongs to the Tenant with the
// highest one. 0: no match. Order: socket, then control group (the innermost match), then user. Two
// Tenants without a common entry never have equal precedence.
uint64_t MatchPrecedence(const TenantSelector& selector, const ProcessOrigin& origin);

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
