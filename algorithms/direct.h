// Inside of BuildPlan: programs that send directly from host to host: all-to-all, gather and
// scatter, and all-reduce of small messages.
//
// All-to-all, gather and scatter:
//
// Every byte between two hosts crosses once, on the lane between them. A step has a piece for each
// pair of ranks, by sender, then by receiver. Slices go straight from the inputs into the outputs,
// or pack several pieces (plan.h); blocks within the host are copied.
//
// clang-format off
//            stage 0       1         2         3
//   host 0   copies     to 1      to 2      to 3
//   host 1   copies     to 2      to 3      to 0        so that no host is the first target of all,
//   host 2   copies     to 3      to 0      to 1        and lanes do not wait for each other
//   host 3   copies     to 0      to 1      to 2
// clang-format on
//
// Cost per host, H hosts, R ranks of which L on this host, N bytes per block: all-to-all L(R−L)N
// bytes out and as many in, over H−1 lanes each way, in one hop; gather and scatter NL at the other
// hosts, N(R−L) at the root's.
#ifndef MCCS_ALGORITHMS_DIRECT_H_
#define MCCS_ALGORITHMS_DIRECT_H_

#include <memory>

#include "algorithms/host_ring.h"
#include "algorithms/plan.h"
#include "algorithms/program_build.h"

namespace mccs {

// Parts of the plan: the maximum number of pairs of ranks over the pairs of hosts.
// REQUIRES: Exchanges(key.kind), two hosts or more.
int ExchangeParts(const PlanKey& key, const Layout& layout);

// One host's program; hop k goes to the k-th next host of the ring. It is built in parts: the local
// copies, then the send and the receive of each hop.
// REQUIRES: Exchanges(key.kind). LIFETIME: what `ring` refers to outlives the build.
std::unique_ptr<ProgramBuild> DirectExchange(const PlanKey& key, const Ring& ring);

// All-reduce in one round, for small messages. Every host sends the sum of its
// ranks' inputs to every other host, and each host accumulates all these sums in the order of
// HostIndex, so all ranks have the same bits.
//
//   stage 0   own sum ─► staged for each other host, and the first output   send to all, receive
//   stage 1   sum of host 0 + sum of host 1 + …  ─► all outputs             from all
//
// Cost per host, H hosts, N bytes: (H−1)N bytes out and as many in, over H−1 lanes each way, in one
// hop. The own sum is staged once per other host, so the result can overwrite the output, where the
// sum was, without waiting for acknowledgements.
//
// Hop k goes to the k-th next host of the ring, as in DirectExchange.
// REQUIRES: 2 ≤ ring.hosts() ≤ kMaxDirectHosts.
Program DirectAllReduce(const Ring& ring, bool scaled);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_DIRECT_H_
