// Inside of BuildPlan: all-to-all, gather and scatter straight from host to host.
//
// Every byte that must cross from one host to another crosses once, on the lane between the two,
// together with all others that go the same way: one slice per round holds a piece for each pair of
// ranks (several slices, where there are more pairs than pieces in a slice). Pieces go out of the
// inputs and land in the outputs; what stays on the host is copied there.
//
//            stage 0       1         2         3
//   host 0   copies     to 1      to 2      to 3
//   host 1   copies     to 2      to 3      to 0        so that no host is everybody's first
//   target; host 2   copies     to 3      to 0      to 1        lanes do not wait for each other
//   host 3   copies     to 0      to 1      to 2
//
// Cost per host, H hosts, R ranks of which L here, N bytes per block: all-to-all L(R−L)N bytes out
// and as many in, over H−1 lanes each way, in one hop; gather and scatter NL at the other hosts,
// N(R−L) at the root's.
#ifndef MCCS_ALGORITHMS_DIRECT_EXCHANGE_H_
#define MCCS_ALGORITHMS_DIRECT_EXCHANGE_H_

#include "absl/status/statusor.h"
#include "algorithms/plan.h"
#include "algorithms/ring.h"

namespace mccs {

// Pieces of one slice: of the pair of hosts with most to tell each other, up to kMaxPieces.
// REQUIRES: Exchanges(key.kind), two hosts or more.
int ExchangePieces(const PlanKey& key, const Layout& layout);

// One host's program, with at most `pieces` pieces in a slice; hop k goes to the k-th next host of
// the ring. kInvalidArgument: more steps than can be numbered. REQUIRES: Exchanges(key.kind).
absl::StatusOr<Program> DirectExchange(const PlanKey& key, const Ring& ring, int pieces);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_DIRECT_EXCHANGE_H_
