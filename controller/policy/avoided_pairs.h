// Rings that avoid pairs of hosts which do not reach each other (ClusterView::unreachable). Pure.
#ifndef MCCS_CONTROLLER_POLICY_AVOIDED_PAIRS_H_
#define MCCS_CONTROLLER_POLICY_AVOIDED_PAIRS_H_

#include <vector>

#include "base/ids.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// Whether two hosts of the communicator do not reach each other, and no two neighbours of `ring`
// are such a pair.
bool AvoidsUnreachablePair(const ClusterView& view, const CommunicatorView& communicator,
                           const std::vector<HostIndex>& ring);

// `ring`, with segments reversed until no two neighbours are such a pair; the first host stays the
// first. Unchanged if that does not succeed. It succeeds if each two hosts that do not reach each
// other reach together at least as many others as the ring has hosts (Palmer's algorithm for Ore's
// theorem): always with one pair among four hosts or more. Time: O(hosts) per pair on the ring.
std::vector<HostIndex> AvoidUnreachablePairs(const ClusterView& view,
                                             const CommunicatorView& communicator,
                                             std::vector<HostIndex> ring);

// Only rings, whose lanes are those between neighbours, for all kinds of calls that have them:
// other algorithms have lanes between other hosts. Operators' rules for these kinds are dropped.
void UseRingsOnly(strategy::Strategy* strategy);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_AVOIDED_PAIRS_H_
