// Shared by all communicators of a daemon.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_COMMUNICATOR_ENVIRONMENT_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_COMMUNICATOR_ENVIRONMENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/limited_warnings.h"
#include "proto/peer.pb.h"
#include "proto/unique_id.h"
#include "service/communicator/links/controller_link.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/strategy/strategy.h"
#include "service/counters.h"
#include "service/device/device.h"
#include "service/host_budget.h"
#include "service/pacing/host_pacing.h"
#include "service/tenant_ledger.h"
#include "service/transport/lane.h"
#include "topology/position.h"

namespace mccs {

class NamedRendezvous;
class Rendezvous;
class TreeRelay;

// LIFETIME: outlives the communicators.
struct CommunicatorEnvironment {
  PeerAccess access;
  Transport* transport = nullptr;
  Transport* rdma = nullptr;   // null: this host has no RDMA, or does not use it
  bool requires_rdma = false;  // communicators over hosts without it do not form
  Device* device = nullptr;
  ControllerLink* controller = nullptr;
  HostPacing* pacing = nullptr;
  TreeRelay* relay = nullptr;
  Rendezvous* rendezvous = nullptr;  // null: those of other daemons only
  NamedRendezvous* named = nullptr;
  LimitedWarnings* lines = nullptr;    // of the log, by tenant
  Position position;                   // of this host
  Endpoint endpoint;                   // where peers connect to this daemon
  int channels = 1;                    // of the default strategy
  LaneShape lanes;                     // likewise
  uint32_t skew = 1;                   // likewise
  ChoiceParameters algorithms;         // likewise
  DaemonCounters* counters = nullptr;  // null: not counted
};

// The request of a rank to join.
struct JoinRequest {
  wire::UniqueId id{};
  std::string tenant;
  std::shared_ptr<TenantAccount> account = {};   // of the process; null: not accounted
  std::shared_ptr<TenantResources> budget = {};  // likewise; null: not limited
  std::string name;
  int ranks = 0;
  cluster::Member rank;
  peer::GpuClaim gpu;
  int32_t device = 0;         // CUDA ordinal in the rank's process
  int64_t timeout_ns = 0;     // 0: no timeout
  int64_t warn_after_ns = 0;  // of the hang watcher; 0: its default
  // For a communicator derived by split: its members are known, so there is no rendezvous. All
  // ranks of this host join before its first turn.
  std::shared_ptr<const peer::Roster> roster;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_COMMUNICATOR_ENVIRONMENT_H_
