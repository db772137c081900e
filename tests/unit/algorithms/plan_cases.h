// Layouts and ring orders shared by the tests of plans.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_PLAN_CASES_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_PLAN_CASES_H_

#include <string>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

// Host h has the next ranks_per_host[h] ranks.
Layout BlockLayout(const std::vector<int>& ranks_per_host);

// The same numbers of ranks, distributed to the hosts in turn.
Layout InterleavedLayout(const std::vector<int>& ranks_per_host);

// A ring per channel; those of different channels differ if there are enough hosts: rotated,
// reversed, with a pair of hosts exchanged.
ChannelOrders VariedOrders(int hosts, int channels);

// The kind with its usual algorithm.
inline PlanKey KeyOf(OpKind kind, Rank root = Rank(0)) {
  return {.kind = kind, .algorithm = UsualAlgorithm(kind), .root = root};
}

// The plans of all hosts. REQUIRES: the key and the layout are valid.
std::vector<Plan> BuildAll(const PlanKey& key, const Layout& layout, const ChannelOrders& orders);

// Longest chain of slices on channel 0, over all hosts, each of which waits for the one before: the
// number of network latencies of a tiny call. Steps are matched by lane; slots do not matter.
// REQUIRES: CheckPlans accepts the plans.
int LongestChain(const std::vector<Plan>& plans);

// "all_reduce by ring root 0 scaled, hosts {0 1} {2}".
std::string Describe(const PlanKey& key, const Layout& layout);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_PLAN_CASES_H_
