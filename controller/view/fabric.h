// A Topology prepared for policies, and the mapping of a view's hosts to their Topology.
//
// OWNER: the policy at work. THREAD: one.
#ifndef MCCS_CONTROLLER_VIEW_FABRIC_H_
#define MCCS_CONTROLLER_VIEW_FABRIC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/view/cluster_view.h"
#include "topology/ecmp_paths.h"
#include "topology/source_port_map.h"
#include "topology/topology.h"

namespace mccs {

// One Topology and its current paths.
class Fabric {
 public:
  // Uses the view's links that are down or drained, and its probed paths.
  Fabric(std::shared_ptr<const Topology> topology, const ClusterView& view);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const Topology& topology() const { return *topology_; }
  EcmpPaths& paths() { return paths_; }
  SourcePortMap& ports() { return ports_; }
  bool IsDrained(LinkId link) const { return drained_[link.value()]; }
  bool IsUsable(LinkId link) const { return !down_[link.value()] && !IsDrained(link); }
  // NICs whose links are up reach each other exactly if they have the same component. A Topology
  // with a fabric per rail has several.
  int32_t ComponentOf(NicId nic) const {
    return components_[topology_->nic(nic).attached_to.value()];
  }
  // By arc; zero for links that are down.
  std::span<const double> capacity_bps() const { return capacity_bps_; }

 private:
  const std::shared_ptr<const Topology> topology_;
  const std::vector<bool> down_, drained_;  // by link
  const std::vector<int32_t> components_;   // by switch
  const std::vector<double> capacity_bps_;
  EcmpPaths paths_;
  SourcePortMap ports_;
};

// A NIC that a strategy can assign to lanes.
struct LaneNic {
  NicId id;
  std::string address;  // numeric

  friend bool operator==(const LaneNic&, const LaneNic&) = default;
};

struct FabricHost {
  Fabric* fabric = nullptr;
  HostId id;
  std::vector<LaneNic> nics;  // from the Topology
  std::optional<NicId> own;   // default of lanes; nothing: not known
  std::string own_address;
  uint16_t peer_port = 0;  // where the host accepts lanes
};

// All Fabrics and hosts of a view.
class Fabrics {
 public:
  explicit Fabrics(const ClusterView& view);

  std::span<const std::unique_ptr<Fabric>> all() const { return fabrics_; }
  // Null: no Topology has the host, or it is mismatched there.
  const FabricHost* Find(const std::string& host) const;

 private:
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  absl::flat_hash_map<std::string, FabricHost> hosts_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_FABRIC_H_
