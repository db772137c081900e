// The identity that a lane's owner gives to its transport: which lanes may share queues, and which
// memory a lane's peer may write.
//
// clang-format off
//   daemon (peer) ─── NIC, tenant ─── traffic class, source port: a SharedQueueKey. Lanes with equal
//        │                                                        keys may share queues.
//        └── communicator ── epoch ── channel: one lane each. A lane is the scope of protection of
//                                     memory that a peer may write by a window. Memory without
//                                     windows, as on GPUs, is open to all queues of the NicDomain
//                                     while it is registered (WindowBinding, peer_pair.h).
// clang-format on
//
// Values.
#ifndef MCCS_SERVICE_TRANSPORT_LANE_IDENTITY_H_
#define MCCS_SERVICE_TRANSPORT_LANE_IDENTITY_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "base/endpoint.h"
#include "base/ids.h"

namespace mccs {

// A NIC of this host, by the address from which its lanes connect (LaneRoute::source_host).
struct NicAddress {
  std::string address;  // numeric; empty: the system's choice

  friend auto operator<=>(const NicAddress&, const NicAddress&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const NicAddress& nic) {
    return H::combine(std::move(h), nic.address);
  }
};

// Priority class of a communicator's traffic, 0 … kMaxPriority (service/pacing/rate_limits.h).
using TrafficClass = StrongInt<struct TrafficClassTag, uint8_t>;

// A NIC on behalf of one tenant, by the daemon's own name of it: Tenants of the controller that are
// told apart by control group share it. Memory that is registered for one cannot be reached over
// queues of another.
struct NicDomain {
  NicAddress nic;
  std::string tenant;  // TenantIdentity::tenant: of a socket, or "uid 1000"

  friend auto operator<=>(const NicDomain&, const NicDomain&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const NicDomain& domain) {
    return H::combine(std::move(h), domain.nic, domain.tenant);
  }
};

// Lanes of which all four are equal may share connections, queue pairs and receive pools. They
// never share credit, and none of them waits for another's receiver.
struct SharedQueueKey {
  Endpoint peer;  // of the peer's daemon, equal in all communicators
  NicDomain domain;
  TrafficClass traffic_class;
  uint16_t source_port = 0;  // of this host's packets, chosen by the strategy; 0: any

  friend bool operator==(const SharedQueueKey&, const SharedQueueKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SharedQueueKey& key) {
    return H::combine(std::move(h), key.peer.host, key.peer.port, key.domain, key.traffic_class,
                      key.source_port);
  }
};

// One lane, as long as it exists. Its owner may later create another one with the same identity.
struct LaneIdentity {
  CommId communicator;
  Epoch epoch;
  ChannelId channel;
  HostIndex from;  // the sender, in the communicator's layout
  HostIndex to;
  SharedQueueKey queues;

  friend bool operator==(const LaneIdentity&, const LaneIdentity&) = default;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_LANE_IDENTITY_H_
