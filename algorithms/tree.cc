#include "algorithms/tree.h"

#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"

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

namespace {

// One host's position in one tree.
struct TreePlace {
  std::optional<HostIndex> parent;
  std::vector<HostIndex> children;
  int level = 0;
  int parent_level = 0;  // if it has a parent
};

// Both positions of a host, and the height of the trees.
struct TreePlaces {
  std::array<TreePlace, kTrees> trees;
  int top = 0;  // level of the topmost host
};

// The positions of this host at `position` of trees over `nodes` hosts, consecutive on the ring.
TreePlaces PlacesAt(const Ring& ring, int position, int nodes) {
  TreePlaces places{.trees = {}, .top = RootLevel(nodes)};
  const auto host_at = [&](int other) { return ring.HostAtDistance(position - other); };
  for (int t = 0; t < kTrees; ++t) {
    const TreeNode node = NodeOfTree(t, position, nodes);
    TreePlace& place = places.trees[static_cast<size_t>(t)];
    place.level = node.level;
    if (node.parent != 0) {
      place.parent = host_at(node.parent);
      place.parent_level = NodeOfTree(t, node.parent, nodes).level;
    }
    for (int child : node.children) place.children.push_back(host_at(child));
  }
  return places;
}

// Trees over all hosts, in the order of the ring.
TreePlaces PlacesOfAll(const Ring& ring) {
  return PlacesAt(ring, ring.position() + 1, ring.hosts());
}

// Trees over all hosts except the root's, which is above both.
TreePlaces PlacesBelow(const Ring& ring, HostIndex root) {
  const int nodes = ring.hosts() - 1;
  const int position = ring.HopsFrom(root);
  const int top = RootLevel(nodes) + 1;
  if (position > 0) {
    TreePlaces places = PlacesAt(ring, position, nodes);
    places.top = top;
    for (TreePlace& place : places.trees) {
      if (place.parent.has_value()) continue;
      place.parent = root;
      place.parent_level = top;
    }
    return places;
  }
  TreePlaces places{.trees = {}, .top = top};
  for (int t = 0; t < kTrees; ++t) {
    TreePlace& place = places.trees[static_cast<size_t>(t)];
    place.level = top;
    for (int other = 1; other <= nodes; ++other) {
      if (NodeOfTree(t, other, nodes).parent == 0) place.children = {ring.HostAtDistance(-other)};
    }
  }
  return places;
}

// A host's steps in one of the trees, stage by stage.
class TreeWalk {
 public:
  TreeWalk(ProgramBuilder& program, const LocalRanks& local, const TreePlace& place, int32_t block)
      : program_(program), local_(local), place_(place), block_(block) {}

  // The children's slices plus the inputs of this host's ranks.
  PlaceList Sum() const {
    PlaceList sources;
    for (uint16_t receive : received_)
      sources.push_back(ProgramBuilder::Received(receive, 0, block_));
    for (const Place& input : local_.Inputs(block_)) sources.push_back(input);
    return sources;
  }
  const std::vector<uint16_t>& received() const { return received_; }

  // Upward, in `stage`.
  void SendUp(int stage, bool scaled) {
    if (!place_.parent.has_value() || stage != place_.parent_level - 1) return;
    if (received_.empty() && local_.count() == 1 && !scaled) {
      program_.Send(*place_.parent, {LocalRanks::Input(0, block_)}, {});
    } else {
      program_.SendStaged(*place_.parent, {{.sources = Sum(), .block = block_}}, received_);
    }
  }
  void TakeFromChildren(int stage) {
    if (stage != place_.level - 1) return;
    for (HostIndex child : place_.children) {
      received_.push_back(program_.ReceiveInSlot(child, {block_}));
    }
  }

  // Sends `from` to the children when `after` is done.
  void SendDown(const Place& from, const std::vector<uint16_t>& after) {
    for (HostIndex child : place_.children) program_.Send(child, {from}, after);
  }

  // Downward; the first stage is that in which the topmost host sends.
  void PassDown(int stage, int top) {
    if (!place_.parent.has_value()) return;
    if (stage == top - place_.level) SendDown(Landing(), {landed_});
    if (stage == top - place_.parent_level + 1 && local_.count() > 1) {
      program_.Combines({{.sources = {Landing()}, .destinations = local_.OtherOutputs(block_)}},
                        {landed_});
    }
  }
  void TakeFromParent(int stage, int top) {
    if (!place_.parent.has_value() || stage != top - place_.parent_level) return;
    landed_ = program_.ReceiveInto(*place_.parent, {Landing()});
  }

  bool topmost() const { return !place_.parent.has_value(); }
  int32_t block() const { return block_; }

 private:
  Place Landing() const { return local_.Landing(block_); }

  ProgramBuilder& program_;
  const LocalRanks& local_;
  const TreePlace& place_;
  const int32_t block_;
  std::vector<uint16_t> received_;  // from the children
  uint16_t landed_ = 0;             // from the parent
};

std::vector<TreeWalk> Walks(ProgramBuilder& program, const LocalRanks& local,
                            const TreePlaces& places) {
  std::vector<TreeWalk> walks;
  for (int32_t t = 0; t < kTrees; ++t) {
    walks.emplace_back(program, local, places.trees[static_cast<size_t>(t)], t);
  }
  return walks;
}

}  // namespace

// In each stage steps that free slots precede those that wait for slots: first all sends and
// combines, then all receives.

Program TreeAllReduce(const Ring& ring, bool scaled) {
  const LocalRanks local(ring.local(), ring.home());
  const TreePlaces places = PlacesOfAll(ring);
  ProgramBuilder program(ring.channel());
  std::vector<TreeWalk> walks = Walks(program, local, places);
  const int top = places.top;
  for (int stage = 0; stage <= 2 * top; ++stage) {
    program.BeginStage(stage);
    for (TreeWalk& walk : walks) {
      walk.SendUp(stage, scaled);
      if (stage == top && walk.topmost()) {
        const int32_t block = walk.block();
        const uint16_t whole = program.Combines(
            {{.sources = walk.Sum(), .destinations = local.Outputs(block), .finish = true}},
            walk.received());
        walk.SendDown(local.Landing(block), {whole});
      }
      walk.PassDown(stage - top, top);
    }
    for (TreeWalk& walk : walks) {
      walk.TakeFromChildren(stage);
      walk.TakeFromParent(stage - top, top);
    }
  }
  return program.Take();
}

Program TreeBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local) {
  const LocalRanks local(ring.local(), ring.home());
  const TreePlaces places = PlacesBelow(ring, root_host);
  ProgramBuilder program(ring.channel());
  std::vector<TreeWalk> walks = Walks(program, local, places);
  for (int stage = 0; stage <= places.top; ++stage) {
    program.BeginStage(stage);
    for (TreeWalk& walk : walks) {
      if (stage == 0 && walk.topmost()) {
        const int32_t block = walk.block();
        const Place root = LocalRanks::Input(static_cast<uint16_t>(root_local.value()), block);
        walk.SendDown(root, {});
        program.Combines({{.sources = {root}, .destinations = local.Outputs(block)}}, {});
      }
      walk.PassDown(stage, places.top);
    }
    for (TreeWalk& walk : walks) walk.TakeFromParent(stage, places.top);
  }
  return program.Take();
}

Program TreeReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled) {
  const LocalRanks local(ring.local(), ring.home());
  const TreePlaces places = PlacesBelow(ring, root_host);
  ProgramBuilder program(ring.channel());
  std::vector<TreeWalk> walks = Walks(program, local, places);
  for (int stage = 0; stage <= places.top; ++stage) {
    program.BeginStage(stage);
    for (TreeWalk& walk : walks) {
      walk.SendUp(stage, scaled);
      if (stage == places.top && walk.topmost()) {
        const Place output =
            LocalRanks::Output(static_cast<uint16_t>(root_local.value()), walk.block());
        program.Combines({{.sources = walk.Sum(), .destinations = {output}, .finish = true}},
                         walk.received());
      }
    }
    for (TreeWalk& walk : walks) walk.TakeFromChildren(stage);
  }
  return program.Take();
}

}  // namespace mccs
