// Contradictions between Topologies and what daemons report of their own hosts. Pure.
#ifndef MCCS_CONTROLLER_STATE_TOPOLOGY_MISMATCH_H_
#define MCCS_CONTROLLER_STATE_TOPOLOGY_MISMATCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/objects/object.h"
#include "controller/view/cluster_view.h"

namespace mccs {

struct TopologyMismatch {
  ObjectKey topology;
  std::string host;
  std::string field;  // "spec.hosts[1].nics[0].address"
  std::string text;   // what the Topology has and what the host reports
  // True: this Topology does not place the host. False: only one NIC differs. A NIC without the
  // address is not used; for another MTU, rate limits assume that header size.
  bool of_host = true;
};

// Checks all hosts of `view`, connected or lost. Reports a NIC whose address the host does not
// have, whose speed is below its capacity or whose MTU is smaller; fewer GPUs; and a rack or pod
// other than in the daemon's configuration. Values that a daemon does not report match anything.
// Sorted by Topology, then by its hosts. `view` is the registry's (positions as daemons report).
std::vector<TopologyMismatch> FindTopologyMismatches(const ObjectSet& set, const ClusterView& view);

// Sets HostView::mismatched. `view`: as above.
void MarkMismatched(const ObjectSet& set, ClusterView* view);

// Removes from `strategy` the addresses of each channel with a host that has not reported its
// address; those lanes use the daemons' default. Rings are positions in `hosts`.
void RemoveUnknownAddresses(const ClusterView& view, const std::vector<std::string>& hosts,
                            strategy::Strategy* strategy);

// kFailedPrecondition: a Topology that the change creates or changes contradicts a connected host;
// one line each, with object, field and line. Contradictions that exist already do not reject other
// changes.
absl::Status CheckAgainstHosts(const ObjectSet& before, const ObjectSet& after,
                               const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_TOPOLOGY_MISMATCH_H_
