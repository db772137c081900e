// Which flows' ways policies would like to know, where the fabric maps source ports to paths by
// `probe`. Pure.
#ifndef MCCS_CONTROLLER_PROBE_WISHES_H_
#define MCCS_CONTROLLER_PROBE_WISHES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/policy/fabric.h"
#include "topology/five_tuple.h"

namespace mccs {

struct ProbeWish {
  std::string host;  // whose daemon can find out
  FiveTuple flow;
  int switches = 0;     // on its way
  bool in_use = false;  // a lane leaves from this port now

  friend bool operator==(const ProbeWish&, const ProbeWish&) = default;
};

// Of two NICs, ports that are tried at a time; and in all, for each lane between them and each
// path.
inline constexpr size_t kPortsTriedAtATime = 8;
inline constexpr size_t kPortsTriedPerPath = 8;
inline constexpr size_t kMaxPortsTried = 512;

// The ways of all lanes on fabrics where some policy places flows, known or not, so that they can
// be looked after; then, for NICs between which flows are to be placed, ports that nobody has
// tried, until each path has as many known ports as there are lanes, or enough have been tried in
// vain. Nothing of NICs between which there is but one path. The view is complete
// (controller/complete_view.h), and the fabrics are its.
std::vector<ProbeWish> WishedProbes(const ObjectSet& objects, const ClusterView& complete,
                                    const Fabrics& fabrics);

// Whether nothing differs that says which links there are and which are to be used.
bool SameLinks(const ObjectSet& before, const ObjectSet& after);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PROBE_WISHES_H_
