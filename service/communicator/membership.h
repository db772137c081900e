// Who belongs to a communicator: the hosts in their order, the ranks of each, and which host is ours.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_H_

#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "service/communicator/controller_link.h"
#include "service/transport/network.h"

namespace mccs {

// Ranks of one communicator.
inline constexpr int kMaxRanks = 1 << 20;

struct Membership {
  peer::Roster roster;
  Layout layout;
  HostIndex self;
  HostIndex leader;  // the host of rank 0

  int hosts() const { return layout.host_count(); }
  Endpoint EndpointOf(HostIndex host) const;
  std::string HostName(HostIndex host) const;
  // "h1, h3".
  std::string HostNames(const std::vector<HostIndex>& hosts) const;
};

// What a roster says, seen from the host of rank `ours`.
Membership MembershipOf(peer::Roster roster, Rank ours);

// How the controller hears of it. `id` names the communicator, `strategy` is the one in force.
CommunicatorInfo Describe(const Membership& members, CommId id, const Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_H_
