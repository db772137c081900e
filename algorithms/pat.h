// Inside of BuildPlan: all-gather and reduce-scatter in ⌈log2 H⌉ hops over any number of hosts
// (source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
// arXiv 2506.20252; its trees are those of Bruck et al., "Efficient algorithms for all-to-all
// communications in multiport message-passing systems", IEEE TPDS 1997).
//
// One binomial tree per host spreads that host's blocks (all-gather) or collects them
// (reduce-scatter). All trees have the same shape, relative to their root: the host that is t hosts
// after the root on the ring is its *offset* t, and its parent is offset t minus the lowest bit of
// t. So in each hop a host has one peer to send to and one to receive from, and the parts of all
// trees for one peer travel together.
//
// clang-format off
//   all-gather over six hosts; the reduce-scatter is the reverse, from the last hop to the first
//     hop 0, to the host 4 after:  own blocks                         offset 0 ─► 4
//     hop 1, to the host 2 after:  own blocks                         offset 0 ─► 2
//     hop 2, to the next host:     own, from 2 before, from 4 before  offsets 0 ─► 1, 2 ─► 3, 4 ─► 5
// clang-format on
//
// Most of the data travels the shortest distance, which stays within a rack if the ring does.
//
// Memory: slices of several blocks are packed, those of one block go straight (plan.h). An
// all-gather sends on from outputs. A reduce-scatter holds slices in their slots until their
// sums have been sent on. A slice has at most kMaxPieces pieces, so trees with more blocks are
// divided into *waves*: subtrees of 2^m successive offsets, the largest that fit a slice. Waves are
// issued from the last offsets to the first, depth first as in the paper: so each lane has at most
// one slice of a round in its slots, whatever the number of hosts and ranks.
//
// Cost per host, H hosts, N bytes in the larger buffer: N(H−1)/H bytes in and out, as with a ring;
// ⌈log2 H⌉ lanes each way; ⌈log2 H⌉ hops, and with several waves up to log2(2^m) + 1 for each of
// them if slots are few.
#ifndef MCCS_ALGORITHMS_PAT_H_
#define MCCS_ALGORITHMS_PAT_H_

#include <memory>

#include "algorithms/host_ring.h"
#include "algorithms/plan.h"
#include "algorithms/program_build.h"

namespace mccs {

// Hops of a plan over this number of hosts: ⌈log2 hosts⌉. Also the number of lanes each way.
int PatHops(int hosts);

// How trees are divided into slices; the same on all hosts.
struct PatShape {
  int wave_offsets = 1;  // reduce-scatter: a power of two; at least the number of hosts: one wave
  int max_pieces = 1;    // of a slice
};

// REQUIRES: two hosts or more.
PatShape PatShapeOf(OpKind kind, const Layout& layout);

// One host's program. It is built slice by slice. REQUIRES: ring.hosts() ≥ 2; `shape` is that of
// the kind and the layout. LIFETIME: what `ring` refers to outlives the build.
std::unique_ptr<ProgramBuild> PatAllGather(const Ring& ring, const PatShape& shape);
std::unique_ptr<ProgramBuild> PatReduceScatter(const Ring& ring, const PatShape& shape,
                                               bool scaled);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PAT_H_
