// Inside of BuildPlan: one host's program on one channel's double binary tree, for each kind that
// supports trees (source: see binary_tree.h; NCCL 2.4 runs its all-reduce over two such trees. The
// trees over hosts with a fused local part, and both in one program, are new here).
//
// Block 0 uses the first tree, block 1 the second: each slice of a round has a tree of its own. The
// trees are built on the channel's ring, over all its hosts for an all-reduce. For a rooted kind
// they are built over the other hosts, and the root's host is above both. In an all-reduce each sum
// is computed only at the root of its tree and distributed from there, so all ranks have the same
// bits.
//
// The stage at which a slice moves between parent and child depends only on the parent's level; L
// is that of the topmost host:
//
//   up     stage level − 1; the parent combines in a later one, most often the next
//   down   stage 2L − level in an all-reduce, L − level in a broadcast
//
// Both children of a host send in the same stage, so neither's slices wait in their slots for the
// other's. A lane has at most one slice per round and stage: no host has children in both trees, so
// if an edge of one tree goes up, that of the other between the same two hosts goes down. Within a
// stage sends and combines precede receives. Otherwise, over three hosts, the topmost host of one
// tree would wait for the other tree's slices in the slots that its combine must free first.
//
// Cost per host, H hosts, N bytes: all-reduce 2N out and in at most, in 2⌊log2 H⌋ hops; broadcast
// and reduce N and N/2, in 1 + ⌊log2 (H−1)⌋ hops (N out or in at the root, in two halves).
#ifndef MCCS_ALGORITHMS_TREE_H_
#define MCCS_ALGORITHMS_TREE_H_

#include "algorithms/plan.h"
#include "algorithms/ring.h"

namespace mccs {

// REQUIRES for all: ring.hosts() ≥ 3. The order of hosts is the ring's.
Program TreeAllReduce(const Ring& ring, bool scaled);
// `root_local`: position of the root among the ranks of `root_host`.
Program TreeBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local);
Program TreeReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_TREE_H_
