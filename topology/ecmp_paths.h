// Equal-cost paths: all shortest paths (fewest links) between two NICs over the switches, as in a
// fabric whose switches know all nearest next hops for each destination (ECMP, RFC 2992).
//
// A path's index is its place in a fixed order: by the first switch's choice among its next hops,
// then the second's, and so on, with next hops in the order of Topology::NeighboursOf. In a
// leaf-spine fabric, path i uses the i-th spine, for every pair of leaves.
//
// The paths of a pair of leaves are computed once, on first use.
// THREAD: one.
#ifndef MCCS_TOPOLOGY_ECMP_PATHS_H_
#define MCCS_TOPOLOGY_ECMP_PATHS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "topology/topology.h"

namespace mccs {

using PathIndex = StrongInt<struct PathIndexTag, int32_t>;

// The arcs of a flow, from NIC to NIC. Six suffice for a three-tier fabric.
using Path = absl::InlinedVector<ArcId, 6>;

// Limit per pair; for pairs with more shortest paths, the others are ignored.
inline constexpr int32_t kMaxPathsOfPair = 4096;

// The paths between two switches: `count` paths of `hops` arcs each, one after the other.
struct FabricPaths {
  int32_t count = 0;
  int32_t hops = 0;
  std::vector<ArcId> arcs;
  bool disjoint = true;  // no two paths have an arc in common
  int32_t number = 0;    // unique within one EcmpPaths: 0, 1, … in the order of first use
};

// The paths from one NIC to another.
// LIFETIME: that of its EcmpPaths.
class PathSet {
 public:
  PathSet() = default;
  PathSet(ArcId out, ArcId into, const FabricPaths* fabric)
      : out_(out), into_(into), fabric_(fabric) {}

  // 0: no links lead there.
  int32_t size() const { return fabric_ == nullptr ? 0 : fabric_->count; }
  bool empty() const { return size() == 0; }

  // The first and last arc, which all paths share, and the arcs between the switches.
  // REQUIRES: not empty.
  ArcId out() const { return out_; }
  ArcId into() const { return into_; }
  std::span<const ArcId> Fabric(PathIndex path) const {
    return {fabric_->arcs.data() + static_cast<size_t>(path.value()) * fabric_->hops,
            static_cast<size_t>(fabric_->hops)};
  }
  // out, Fabric, into.
  Path operator[](PathIndex path) const;
  // The paths between the switches at the ends: the same object for all NICs at these two. Null: no
  // links lead there.
  const FabricPaths* fabric() const { return fabric_; }

 private:
  ArcId out_, into_;
  const FabricPaths* fabric_ = nullptr;
};

class EcmpPaths {
 public:
  // Uses the links that are not `down` (by link; empty: none is).
  // LIFETIME: `topology` outlives this and is not changed.
  explicit EcmpPaths(const Topology& topology, std::vector<bool> down = {});

  // REQUIRES: from ≠ to. Two NICs of one host have paths too, through their switches.
  PathSet Between(NicId from, NicId to);

  // The equal next hops of a packet at `at` to a NIC at the switch `toward`, in their order. Empty:
  // the packet is there, or no links lead there.
  std::span<const Topology::Neighbour> NextHops(SwitchId at, SwitchId toward);

 private:
  // The next hops of packets to one switch.
  struct Tree {
    std::vector<int32_t> begin;  // by switch, plus one: start of its part of next_hops
    std::vector<Topology::Neighbour> next_hops;
  };

  bool IsDown(ArcId arc) const { return !down_.empty() && down_[LinkOf(arc).value()]; }
  const Tree& TreeToward(SwitchId toward);
  std::vector<int32_t> DistancesTo(SwitchId toward) const;
  FabricPaths Enumerate(SwitchId from, SwitchId to);

  const Topology& topology_;
  const std::vector<bool> down_;
  std::vector<std::unique_ptr<Tree>> trees_;  // by switch; null until first use
  absl::flat_hash_map<std::pair<SwitchId, SwitchId>, std::unique_ptr<FabricPaths>> fabric_;
};

// Connected components of a topology, and hosts that cannot reach each other.

// By switch: the number of its connected component, from 0. Ignores links that are `down` (by link;
// empty: none is).
std::vector<int32_t> ComponentsOfSwitches(const Topology& topology,
                                          const std::vector<bool>& down = {});

struct Unreachable {
  HostId host;
  HostId from;  // the first host that cannot reach it
};

// All hosts that some earlier host cannot reach, in order, each with the first such host. Hosts
// reach each other if they share one fabric; separate fabrics (one per rail) are allowed.
// REQUIRES: each host has a NIC.
std::vector<Unreachable> FindUnreachable(const Topology& topology);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_ECMP_PATHS_H_
