#include "algorithms/binary_tree.h"

#include <bit>

namespace mccs {
namespace {

int LevelOf(int position) { return std::countr_zero(static_cast<unsigned>(position)); }

// In the first tree. If the parent in a full tree does not exist, the left one does.
int ParentOf(int position, int nodes) {
  const int own = 1 << LevelOf(position);
  const int right_of_it = (position & ~own) | (own << 1);
  return right_of_it <= nodes ? right_of_it : position & ~own;
}

std::vector<int> ChildrenOf(int position, int nodes) {
  std::vector<int> children;
  const int step = (1 << LevelOf(position)) / 2;
  if (step == 0) return children;
  children.push_back(position - step);
  for (int right = step; right > 0; right /= 2) {
    if (position + right > nodes) continue;
    children.push_back(position + right);
    break;
  }
  return children;
}

// Maps positions of the second tree to those of the first one; its own inverse.
int ToFirst(int position, int nodes) {
  return nodes % 2 == 0 ? nodes + 1 - position : position % nodes + 1;
}

int FromFirst(int position, int nodes) {
  return nodes % 2 == 0 ? nodes + 1 - position : (position + nodes - 2) % nodes + 1;
}

}  // namespace

int RootLevel(int nodes) { return std::bit_width(static_cast<unsigned>(nodes)) - 1; }

TreeNode NodeOfTree(int tree, int position, int nodes) {
  const int own = tree == 0 ? position : ToFirst(position, nodes);
  TreeNode node{
      .parent = ParentOf(own, nodes), .children = ChildrenOf(own, nodes), .level = LevelOf(own)};
  if (tree == 0) return node;
  if (node.parent != 0) node.parent = FromFirst(node.parent, nodes);
  for (int& child : node.children) child = FromFirst(child, nodes);
  return node;
}

}  // namespace mccs
