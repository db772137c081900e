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
