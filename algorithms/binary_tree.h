// The shape of the two binary trees that a tree plan runs over: pure arithmetic on positions
// (source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 2009).
//
// Each tree has the positions 1 … n in order: all of the left subtree before its root, all of the
// right one behind it. In the first tree a position's level is the number of times that two divides
// it, so odd positions are leaves and even ones are not. The second is the first one read backwards
// where n is even, and moved on by one where n is odd. So whoever has children in one tree has none
// in the other: over both trees each host sends, and receives, about as much as every other.
//
//   n = 6      4              3            leaves 1 3 5      and 2 4 6
//            /   \          /   \              .
//           2     6        1     5
//          / \   /          \   / \            .
//         1   3 5            2 4   6
//
// Neighbours in a tree are a power of two of positions apart (counted around): over all roots of a
// rooted call a host has at most two such neighbours for each power.
#ifndef MCCS_ALGORITHMS_BINARY_TREE_H_
#define MCCS_ALGORITHMS_BINARY_TREE_H_

#include <vector>

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

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_BINARY_TREE_H_
