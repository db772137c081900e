// Which Tenant a process is: the one rule of daemons, which hold tenants to their quotas, and of
// the controller, whose policies are for tenants. Pure.
#ifndef MCCS_PROTO_TENANT_WHO_H_
#define MCCS_PROTO_TENANT_WHO_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace mccs {

// What a daemon knows of a process that came to one of its sockets.
struct ProcessOrigin {
  std::string called;  // the socket's tenant, or "uid 1000" of one who came to the common socket
  std::string cgroup;  // as /proc/PID/cgroup has it, from / on; empty: not known

  friend auto operator<=>(const ProcessOrigin&, const ProcessOrigin&) = default;
};

// What daemons call a user who has no socket of its own.
std::string CallUser(uint32_t uid);

// Whom a Tenant claims. Each entry once.
struct TenantWho {
  std::vector<uint32_t> uids;        // at the common socket
  std::vector<std::string> sockets;  // `tenant` of sockets in mccsd's configuration
  std::vector<std::string> cgroups;  // these and all below them

  friend bool operator==(const TenantWho&, const TenantWho&) = default;
};

// How firmly `who` claims a process of this origin: of several Tenants the one with the highest
// number has it. 0: not at all. A socket goes before a control group, of which the innermost
// counts, and that before a user. Two Tenants never claim one origin alike, if no entry is of both.
uint64_t ClaimOf(const TenantWho& who, const ProcessOrigin& origin);

// The one of `candidates`, a list, that claims a process of this origin most firmly; null: none
// does. `who_of` gives whom a candidate claims; null: it is no Tenant.
// LIFETIME: what is returned is as long there as the list is as it is.
template <typename Candidates, typename WhoOf>
auto FindClaimant(const Candidates& candidates, const ProcessOrigin& origin, WhoOf who_of)
    -> decltype(&*candidates.begin()) {
  decltype(&*candidates.begin()) found = nullptr;
  uint64_t firmest = 0;
  for (const auto& candidate : candidates) {
    const TenantWho* who = who_of(candidate);
    const uint64_t claim = who != nullptr ? ClaimOf(*who, origin) : 0;
    if (claim <= firmest) continue;
    firmest = claim;
    found = &candidate;
  }
  return found;
}

}  // namespace mccs

#endif  // MCCS_PROTO_TENANT_WHO_H_
