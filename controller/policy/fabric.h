// A Topology as policies work with it, and the hosts of a view as their Topology has them.
//
// OWNER: the policy at work. THREAD: one.
#ifndef MCCS_CONTROLLER_POLICY_FABRIC_H_
#define MCCS_CONTROLLER_POLICY_FABRIC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/cluster_view.h"
#include "topology/ecmp_paths.h"
#include "topology/source_port_map.h"
#include "topology/topology.h"

namespace mccs {

// One Topology with the ways that lead over it now.
class Fabric {
 public:
  // With the links that `view` has as down and drained, and what has been probed.
  Fabric(std::shared_ptr<const Topology> topology, const ClusterView& view);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  const Topology& topology() const { return *topology_; }
  EcmpPaths& paths() { return paths_; }
  SourcePortMap& ports() { return ports_; }
  bool IsDrained(LinkId link) const { return drained_[link.value()]; }
  bool IsUsable(LinkId link) const { return !down_[link.value()] && !IsDrained(link); }
  // NICs whose links are up reach each other where they have the same component, and only there: a
  // fabric for each rail has several.
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

// A NIC that lanes can be told to use.
struct LaneNic {
  NicId id;
  std::string address;  // numeric

  friend bool operator==(const LaneNic&, const LaneNic&) = default;
};

struct FabricHost {
  Fabric* fabric = nullptr;
  HostId id;
  std::vector<LaneNic> nics;  // as the Topology has them
  std::optional<NicId> own;   // of lanes that are told nothing; not known: nothing
  std::string own_address;
  uint16_t peer_port = 0;  // where lanes arrive
};

// All that a view has of them.
class Fabrics {
 public:
  explicit Fabrics(const ClusterView& view);

  std::span<const std::unique_ptr<Fabric>> all() const { return fabrics_; }
  // Null: no Topology has such a host, or what it says of it is not so.
  const FabricHost* Find(const std::string& host) const;

 private:
  std::vector<std::unique_ptr<Fabric>> fabrics_;
  absl::flat_hash_map<std::string, FabricHost> hosts_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_FABRIC_H_
