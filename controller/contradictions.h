// Where Topologies and what daemons say of their own hosts do not fit together. Pure.
#ifndef MCCS_CONTROLLER_CONTRADICTIONS_H_
#define MCCS_CONTROLLER_CONTRADICTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"

namespace mccs {

struct Contradiction {
  ObjectKey topology;
  std::string host;
  std::string field;  // "spec.hosts[1].nics[0].address"
  std::string text;   // what the one and the other say
  // The host is not placed by this Topology; else it is of a NIC alone: one that has not the
  // address is not used; where it has another MTU, lanes are told rates that reckon with other
  // headers.
  bool of_host = true;
};

// Of the hosts of `view` that are connected, or were last seen: a NIC whose address the host does
// not have, that is slower than its capacity, or whose MTU is smaller; fewer GPUs; another rack or
// pod than the daemon's configuration has. What a daemon does not say contradicts nothing. In the
// order of Topologies, then of their hosts. `view` is as the registry has it (positions are the
// daemons').
std::vector<Contradiction> FindContradictions(const ObjectSet& set, const ClusterView& view);

// Sets HostView::misdescribed. Likewise of such a view.
void MarkMisdescribed(const ObjectSet& set, ClusterView* view);

// Takes from `strategy`, whose rings count in `hosts`, the addresses of channels where a host has
// not said that it has its address: their lanes use what the daemons use without being told.
void LeaveOutUnknownAddresses(const ClusterView& view, const std::vector<std::string>& hosts,
                              strategy::Strategy* strategy);

// kFailedPrecondition: a Topology that the change from `before` to `after` makes or changes
// contradicts a host that is connected; one line for each, with object, field and line. What
// contradicts already, since a daemon has come, keeps nobody from changing something else.
absl::Status CheckAgainstHosts(const ObjectSet& before, const ObjectSet& after,
                               const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_CONTRADICTIONS_H_
