// Chooses the flows whose paths policies need, for Topologies with the source port mapping `probe`.
// Pure.
#ifndef MCCS_CONTROLLER_MEASUREMENT_PROBE_TARGETS_H_
#define MCCS_CONTROLLER_MEASUREMENT_PROBE_TARGETS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "controller/objects/object.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "topology/five_tuple.h"

namespace mccs {

struct ProbeTarget {
  std::string host;  // host whose daemon sends the probe
  FiveTuple flow;
  int switches = 0;     // number on its path
  bool in_use = false;  // a lane uses this source port now

  friend bool operator==(const ProbeTarget&, const ProbeTarget&) = default;
};

// Per pair of NICs: number of ports probed at a time; in all, for each lane and each path between
// them; and the upper limit.
inline constexpr size_t kPortsTriedAtATime = 8;
inline constexpr size_t kPortsTriedPerPath = 8;
inline constexpr size_t kMaxPortsTried = 512;

// First, the flows of all lanes in Topologies where some policy places flows, known or not, so that
// their results stay fresh. Then new ports between NICs with flows to place, until each path has as
// many known ports as there are lanes, or the limit of ports is reached. Nothing for NICs with only
// one path between them. `resolved` is a resolved view (controller/state/resolved_view.h),
// and `fabrics` are made from its Topologies.
std::vector<ProbeTarget> ProbeTargets(const ObjectSet& objects, const ClusterView& resolved,
                                      const Fabrics& fabrics);

// Whether both define the same links with the same states.
bool SameLinks(const ObjectSet& before, const ObjectSet& after);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_MEASUREMENT_PROBE_TARGETS_H_
