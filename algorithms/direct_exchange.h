// Inside of BuildPlan: all-to-all, gather and scatter directly from host to host.
//
// Every byte between two hosts crosses once, on the lane between them, together with all others of
// that direction: one slice per round has a piece for each pair of ranks (several slices, if there
// are more pairs than pieces in a slice). Pieces are sent from the inputs and land in the outputs;
// blocks within the host are copied.
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
#ifndef MCCS_ALGORITHMS_DIRECT_EXCHANGE_H_
#define MCCS_ALGORITHMS_DIRECT_EXCHANGE_H_

#include "absl/status/statusor.h"
#include "algorithms/plan.h"
#include "algorithms/ring.h"

namespace mccs {

// Pieces per slice: the maximum over pairs of hosts, up to kMaxPieces.
// REQUIRES: Exchanges(key.kind), two hosts or more.
int ExchangePieces(const PlanKey& key, const Layout& layout);

// One host's program, with at most `pieces` pieces in a slice; hop k goes to the k-th next host of
// the ring. kInvalidArgument: too many steps. REQUIRES: Exchanges(key.kind).
absl::StatusOr<Program> DirectExchange(const PlanKey& key, const Ring& ring, int pieces);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_DIRECT_EXCHANGE_H_
