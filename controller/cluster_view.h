// What a policy sees: the cluster at one moment, as plain values. Policies are pure functions of
// it.
#ifndef MCCS_CONTROLLER_CLUSTER_VIEW_H_
#define MCCS_CONTROLLER_CLUSTER_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/cost.h"
#include "base/ids.h"
#include "proto/strategy.pb.h"
#include "proto/tenant_who.h"
#include "topology/position.h"
#include "topology/probed_paths.h"
#include "topology/topology.h"

namespace mccs {

struct NicView {
  std::string name;
  std::vector<std::string> addresses;  // numeric
  uint64_t speed_bps = 0;              // 0: unknown
  uint32_t mtu_bytes = 0;              // likewise
};

struct HostView {
  Position position;  // position.host is its name
  int gpus = 0;
  bool ready = false;              // its agent is connected
  std::vector<NicView> nics = {};  // as its agent says
  // Where other daemons reach this one, if no NIC is named.
  std::string peer_address = {};
  uint16_t peer_port = 0;
  bool drained = false;  // the operator wants it to be free
  // What its Topology says of it as a whole is not so (controller/contradictions.h): it counts as a
  // host that no Topology has.
  bool misdescribed = false;
};

// Whether it has said that it can be reached there.
inline bool HasAddress(const HostView& host, const std::string& address) {
  if (address == host.peer_address) return true;
  return std::any_of(host.nics.begin(), host.nics.end(), [&](const NicView& nic) {
    return std::find(nic.addresses.begin(), nic.addresses.end(), address) != nic.addresses.end();
  });
}

// Whose a communicator is, and what the Tenant is entitled to of the network.
struct TenantView {
  std::string name = {};  // of the Tenant; where there is none, what its daemon calls it
  double weight = 1;
  std::optional<uint64_t> guarantee_bps = {};
  std::optional<uint64_t> cap_bps = {};
  uint32_t priority = 0;
};

struct CommunicatorView {
  CommId id;
  std::string tenant;              // as its daemon calls it
  std::vector<std::string> hosts;  // by position in the strategy's rings
  strategy::Strategy strategy;     // proposed last, else as announced
  // By position, too: the indices of its ranks' GPUs on the host, ascending, and its lowest rank
  // there. Empty: not known (a communicator that is remembered).
  std::vector<std::vector<int>> gpus = {};
  std::vector<int> first_ranks = {};
  TenantView owner = {};
  std::string cgroup = {};                   // of its leader's processes; empty: not known
  std::optional<CostParameters> costs = {};  // that its strategy should have; absent: as it has
  // An earlier controller had it, and not all of its daemons have come back yet: it keeps what it
  // has, whatever the view lacks.
  bool away = false;
  // By Registry: of one communicator the same number is the same content, but for its owner.
  // 0: it did not say it.
  uint64_t revision = 0;

  ProcessOrigin origin() const { return {tenant, cgroup}; }
};

// All lists in a fixed order: hosts by position, communicators by id, the others by name. Owners,
// topologies and links come from operators (controller/complete_view.h).
struct ClusterView {
  std::vector<HostView> hosts;
  std::vector<CommunicatorView> communicators;
  std::vector<std::shared_ptr<const Topology>> topologies = {};  // a host stands in one at most
  // Names of links: switches know that the first are down, and of the second that they are to carry
  // nothing they do not.
  std::vector<std::string> links_down = {};
  std::vector<std::string> links_drained = {};
  // What daemons have found by probing; null: nothing.
  std::shared_ptr<const ProbedPaths> probed = {};
  // By KeptView: the same number is the same content, but for communicators; of these whoever has
  // the same revision is the same. 0: nobody keeps it.
  uint64_t ground = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_CLUSTER_VIEW_H_
