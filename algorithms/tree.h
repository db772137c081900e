// The shape of the two binary trees of a tree plan: arithmetic on positions (source: Sanders,
// Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
// Computing 2009).
//
// Each tree has the positions 1 … n in order: the left subtree before its root, the right one after
// it. In the first tree a position's level is the number of times that two divides it, so odd
// positions are leaves and even ones are not. The second tree is the first one reversed if n is
// even, and shifted by one if n is odd. So a host with children in one tree has none in the other,
// and over both trees all hosts send and receive about as much.
//
//   n = 6      4              3            leaves 1 3 5      and 2 4 6
//            /   \          /   \              .
//           2     6        1     5
//          / \   /          \   / \            .
//         1   3 5            2 4   6
//
// The distance of neighbours in a tree is a power of two (modulo n): over all roots of a rooted
// call a host has at most two such neighbours for each power.
#ifndef MCCS_ALGORITHMS_TREE_H_
#define MCCS_ALGORITHMS_TREE_H_

#include <vector>

#include "algorithms/host_ring.h"
#include "algorithms/plan.h"

namespace mccs {

inline constexpr int kTrees = 2;

struct TreeNode {
  int parent = 0;             // 0: none, the root
  std::vector<int> children;  // two at most, ascending in the first tree's order
  int level = 0;              // 0: a leaf; always below the parent's
};

// The level of the root.
// REQUIRES: nodes ≥ 1.
int RootLevel(int nodes);

// The node at `position` of tree 0 or 1.
// REQUIRES: 1 ≤ position ≤ nodes.
TreeNode NodeOfTree(int tree, int position, int nodes);

// Inside of BuildPlan: one host's program on one channel's double binary tree, for each kind that
// supports trees (source of their shape: see above; NCCL 2.4 runs its all-reduce over two such
// trees. The trees over hosts with a fused local part, and both in one program, are new here).
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

// REQUIRES for all: ring.hosts() ≥ 3. The order of hosts is the ring's.
Program TreeAllReduce(const Ring& ring, bool scaled);
// `root_local`: position of the root among the ranks of `root_host`.
Program TreeBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local);
Program TreeReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_TREE_H_
