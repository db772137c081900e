// Who belongs to a communicator: the hosts in their order, the ranks of each, and which host is
// ours.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
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

// What this host knows of its communicator before the roster comes.
struct RosterExpectation {
  CommId id;            // of the unique id
  bool any_id = false;  // the id may be used again: the rendezvous gave another name
  std::string tenant;
  std::string host;   // this one's name
  Endpoint endpoint;  // where peers reach it
  int ranks = 0;
  std::vector<Rank> locals;  // ranks of this host
};

// What the roster says, if it can be: it comes from a daemon that a tenant's unique id named, which
// may be anybody. kDataLoss with the reason otherwise.
absl::StatusOr<Membership> CheckRoster(peer::Roster roster, const RosterExpectation& expected);

// How the controller hears of it. `id` names the communicator, `strategy` is the one in force.
CommunicatorInfo Describe(const Membership& members, CommId id, const Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_H_
