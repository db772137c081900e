// The input of policies: the cluster at one moment, as plain values. Policies are pure functions of
// it.
#ifndef MCCS_CONTROLLER_VIEW_CLUSTER_VIEW_H_
#define MCCS_CONTROLLER_VIEW_CLUSTER_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/cost.h"
#include "base/ids.h"
#include "proto/strategy.pb.h"
#include "proto/tenant_selector.h"
#include "topology/hop_path.h"
#include "topology/position.h"
#include "topology/topology.h"

namespace mccs {

using HostPair = std::pair<std::string, std::string>;  // names, the lower one first

struct NicView {
  std::string name;
  std::vector<std::string> addresses;  // numeric
  uint64_t speed_bps = 0;              // 0: unknown
  uint32_t mtu_bytes = 0;              // 0: unknown
};

struct HostView {
  Position position;  // position.host is its name
  int gpus = 0;
  bool ready = false;              // its agent is connected
  std::vector<NicView> nics = {};  // as reported by its agent
  // Address at which other daemons reach this one, if no NIC is named.
  std::string peer_address = {};
  uint16_t peer_port = 0;
  bool drained = false;  // an operator's Drain selects it
  // Its Topology contradicts what the daemon reports (controller/state/topology_mismatch.h). The
  // host counts as one without a Topology.
  bool mismatched = false;
};

// Whether the host has reported this address.
inline bool HasAddress(const HostView& host, const std::string& address) {
  if (address == host.peer_address) return true;
  return std::any_of(host.nics.begin(), host.nics.end(), [&](const NicView& nic) {
    return std::find(nic.addresses.begin(), nic.addresses.end(), address) != nic.addresses.end();
  });
}

// The Tenant of a communicator and its entitlement to the network.
struct TenantView {
  std::string name = {};  // of the Tenant; without one, the tenant name that the daemon reports
  double weight = 1;
  std::optional<uint64_t> guarantee_bps = {};
  std::optional<uint64_t> cap_bps = {};
  uint32_t priority = 0;
};

struct CommunicatorView {
  CommId id;
  std::string tenant;              // as reported by its daemon
  std::vector<std::string> hosts;  // by position in the strategy's rings
  strategy::Strategy strategy;     // the newest proposal, else as announced
  // By position in `hosts`: indices of the GPUs of its ranks on that host, ascending, and its
  // lowest rank there. Empty: not known (a recovered communicator).
  std::vector<std::vector<int>> gpus = {};
  std::vector<int> first_ranks = {};
  // By position in `hosts`, then by position of the rank among those of its host: the index of its
  // GPU; -1: not known.
  std::vector<std::vector<int>> gpu_of_rank = {};
  TenantView owner = {};
  std::string cgroup = {};                   // of its leader's processes; empty: not known
  std::optional<CostParameters> costs = {};  // that its strategy should have; absent: no change
  // Recovered from an earlier controller, and not all of its daemons have reconnected. It keeps its
  // strategy, whatever is missing in the view.
  bool reconnecting = false;
  // From Registry: equal numbers of one communicator mean equal content, except `owner`.
  // 0: not from a Registry.
  uint64_t revision = 0;

  ProcessOrigin origin() const { return {tenant, cgroup}; }
};

// All lists have a fixed order: hosts by position, communicators by id, the others by name. Owners,
// topologies and links come from operators' objects (controller/state/resolved_view.h).
struct ClusterView {
  std::vector<HostView> hosts;
  std::vector<CommunicatorView> communicators;
  std::vector<std::shared_ptr<const Topology>> topologies = {};  // each host is in at most one
  // Names of links: links that are down, as the switches know, and links that operators drain, as
  // the switches do not know.
  std::vector<std::string> links_down = {};
  std::vector<std::string> links_drained = {};
  // Pairs of ready hosts of which one cannot open connections to the other.
  std::set<HostPair> unreachable = {};
  // Paths found by probing; null: none.
  std::shared_ptr<const ProbedPaths> probed = {};
  // Generation of everything but communicators, from ViewCache; those are compared by their own
  // revision. 0: the view is not cached.
  uint64_t generation = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_CLUSTER_VIEW_H_
