// Members of a communicator: the hosts in order, the ranks of each, and the index of this host.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_MEMBERSHIP_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_MEMBERSHIP_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "algorithms/plan.h"
#include "base/ids.h"
#include "proto/agent.pb.h"
#include "proto/peer.pb.h"
#include "service/communicator/strategy/strategy.h"
#include "service/transport/handshake.h"
#include "service/transport/network.h"

namespace mccs {

// Maximum number of ranks of one communicator.
inline constexpr int kMaxRanks = 1 << 20;

// The key by which daemons of a communicator prove that they have its roster. `secret`: of its
// unique id.
Secret KeyOf(const Secret& secret, const peer::Roster& roster);

struct Membership {
  peer::Roster roster;
  Layout layout;
  std::vector<HostIndex> host_of;  // by rank
  HostIndex self;
  HostIndex leader;  // the host of rank 0

  int hosts() const { return layout.host_count(); }
  int ranks() const { return static_cast<int>(host_of.size()); }
  // REQUIRES: 0 ≤ rank < ranks().
  HostIndex HostOf(Rank rank) const { return host_of[static_cast<size_t>(rank.value())]; }
  Endpoint EndpointOf(HostIndex host) const;
  std::string HostName(HostIndex host) const;
  std::vector<HostIndex> HostsWithoutRdma() const;
  std::vector<std::string> RdmaAddressesOf(HostIndex host) const;
  // "h1, h3".
  std::string HostNames(const std::vector<HostIndex>& hosts) const;
};

// A communicator as this host knows it before the roster arrives.
struct RosterExpectation {
  CommId id;            // from the unique id
  bool any_id = false;  // the rendezvous assigned another id, because the unique id may be reused
  std::string tenant;
  std::string host;                              // this host's name
  Endpoint endpoint;                             // where peers connect to it
  std::vector<std::string> rdma_addresses = {};  // of its RDMA NICs
  int ranks = 0;
  std::vector<Rank> locals;  // ranks of this host
};

// Of the RDMA NICs of one host: at most so many.
inline constexpr size_t kMaxRdmaAddresses = 16;
using RdmaAddresses = google::protobuf::RepeatedPtrField<std::string>;
// kInvalidArgument: too many, or not numeric.
absl::Status CheckRdmaAddresses(const RdmaAddresses& addresses);

// Validates and converts a roster. It comes from the daemon that a tenant's unique id names, which
// may be an impostor where daemons have no certificates. kDataLoss with the reason if it is
// invalid. Its parts are sent on, to the controller and in other rosters. REQUIRES: no unknown
// fields (ParseRelayed).
absl::StatusOr<Membership> CheckRoster(peer::Roster roster, const RosterExpectation& expected);

// For the controller. `strategy`: the current one.
agent::v1::Announce Describe(const Membership& members, CommId id, const Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_MEMBERSHIP_H_
