// Inside of BuildPlan: all-reduce in one round, for small messages. Every host sends the sum of its
// ranks' inputs to every other host, and each host accumulates all these sums in the order of
// HostIndex, so all ranks have the same bits.
//
//   stage 0   own sum ─► staged for each other host, and the first output   send to all, receive
//   stage 1   sum of host 0 + sum of host 1 + …  ─► all outputs             from all
//
// Cost per host, H hosts, N bytes: (H−1)N bytes out and as many in, over H−1 lanes each way, in one
// hop. The own sum is staged once per other host, so the result can overwrite the output, where the
// sum was, without waiting for acknowledgements.
#ifndef MCCS_ALGORITHMS_DIRECT_ALL_REDUCE_H_
#define MCCS_ALGORITHMS_DIRECT_ALL_REDUCE_H_

#include "algorithms/plan.h"
#include "algorithms/ring.h"

namespace mccs {

// Hop k goes to the k-th next host of the ring, as in direct_exchange.h.
// REQUIRES: 2 ≤ ring.hosts() ≤ kMaxDirectHosts.
Program DirectAllReduce(const Ring& ring, bool scaled);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_DIRECT_ALL_REDUCE_H_
