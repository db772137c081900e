// The shape of the two trees, and the costs of their plans and of the direct all-reduce.
// plan_sweep_test.cc proves the plans' correctness.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <vector>

#include "algorithms/algorithm_choice.h"
#include "algorithms/plan.h"
#include "algorithms/tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace tree_plan_test {

using ::testing::HasSubstr;

constexpr int kMostNodes = 70;

int DepthOf(int tree, int position, int nodes) {
  int depth = 0;
  while ((position = NodeOfTree(tree, position, nodes).parent) != 0) ++depth;
  return depth;
}

TEST(BinaryTree, ParentsAndChildrenAgreeAndLevelsFall) {
  for (int nodes = 1; nodes <= kMostNodes; ++nodes) {
    for (int tree = 0; tree < kTrees; ++tree) {
      int roots = 0;
      for (int p = 1; p <= nodes; ++p) {
        const TreeNode node = NodeOfTree(tree, p, nodes);
        EXPECT_LE(node.children.size(), 2u);
        EXPECT_EQ(node.children.empty(), node.level == 0);
        for (int child : node.children) {
          EXPECT_EQ(NodeOfTree(tree, child, nodes).parent, p);
          EXPECT_LT(NodeOfTree(tree, child, nodes).level, node.level);
        }
        if (node.parent == 0) {
          ++roots;
          EXPECT_EQ(node.level, RootLevel(nodes));
          continue;
        }
        const auto siblings = NodeOfTree(tree, node.parent, nodes).children;
        EXPECT_EQ(std::count(siblings.begin(), siblings.end(), p), 1)
            << "node " << p << " of " << nodes << ", tree " << tree;
        EXPECT_LE(DepthOf(tree, p, nodes), RootLevel(nodes));
      }
      EXPECT_EQ(roots, 1) << nodes << " nodes, tree " << tree;
    }
  }
}

TEST(BinaryTree, NoHostHasChildrenInBothTrees) {
  for (int nodes = 2; nodes <= kMostNodes; ++nodes) {
    int idle = 0;
    for (int p = 1; p <= nodes; ++p) {
      const bool first = NodeOfTree(0, p, nodes).level > 0;
      const bool second = NodeOfTree(1, p, nodes).level > 0;
      EXPECT_FALSE(first && second) << "node " << p << " of " << nodes;
      idle += first || second ? 0 : 1;
    }
    EXPECT_EQ(idle, nodes % 2) << nodes << " nodes";
  }
}

TEST(BinaryTree, NeighboursAreAPowerOfTwoApart) {
  for (int nodes = 1; nodes <= kMostNodes; ++nodes) {
    for (int tree = 0; tree < kTrees; ++tree) {
      for (int p = 1; p <= nodes; ++p) {
        const int parent = NodeOfTree(tree, p, nodes).parent;
        if (parent == 0) continue;
        const int apart = std::abs(p - parent);
        // Modulo the number of hosts, with the root of a rooted call between the last and the
        // first.
        EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(apart)) || apart == nodes - 1);
      }
    }
  }
}

TEST(TreePlan, AHostSendsAboutAsMuchAsEveryOther) {
  for (int hosts : {3, 4, 5, 8, 13}) {
    const auto plans = BuildAll({.kind = OpKind::kAllReduce, .algorithm = Algorithm::kTree},
                                BlockLayout(std::vector<int>(static_cast<size_t>(hosts), 2)),
                                VariedOrders(hosts, 1));
    for (const Plan& plan : plans) {
      EXPECT_EQ(plan.blocks, 2);
      int sends = 0;
      for (const Step& step : plan.programs[0].steps) sends += step.kind == StepKind::kSend;
      EXPECT_LE(sends, 4) << "halves of the buffer: one up each tree, two down one of them";
    }
  }
}

// For any root: this bounds the lanes that a communicator opens in its lifetime.
TEST(TreePlan, ItsPeersAreFew) {
  for (int hosts : {3, 4, 7, 16, 25}) {
    const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), 1));
    std::map<int, std::set<HostIndex>> peers;
    for (OpKind kind : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce}) {
      for (int root = 0; root < hosts; ++root) {
        const auto plans =
            BuildAll({.kind = kind, .algorithm = Algorithm::kTree, .root = Rank(root)}, layout,
                     VariedOrders(hosts, 1));
        for (int h = 0; h < hosts; ++h) {
          for (const Step& step : plans[static_cast<size_t>(h)].programs[0].steps) {
            if (step.kind != StepKind::kCombine) peers[h].insert(step.peer);
          }
        }
      }
    }
    for (const auto& [host, others] : peers) {
      EXPECT_LE(static_cast<int>(others.size()), PeersOf(Algorithm::kTree, hosts))
          << "host " << host << " of " << hosts;
    }
  }
}

TEST(DirectPlan, AnAllReduceIsOneRound) {
  const auto plans = BuildAll({.kind = OpKind::kAllReduce, .algorithm = Algorithm::kDirect},
                              InterleavedLayout({2, 1, 3}), VariedOrders(3, 2));
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.blocks, 1);
    std::set<HostIndex> targets;
    const Step* steps = plan.programs[1].steps.data();
    for (const Step& step : plan.programs[1].steps) {
      if (step.kind == StepKind::kSend) targets.insert(step.peer);
      EXPECT_EQ(step.stage, step.kind == StepKind::kCombine && &step != steps ? 1 : 0);
    }
    EXPECT_EQ(targets.size(), 2u);
  }
}

TEST(Plans, RejectUnsupportedAlgorithms) {
  const auto rejection = [](const PlanKey& key, int hosts) {
    const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), 1));
    return std::string(
        BuildPlan(key, layout, VariedOrders(hosts, 1), HostIndex(0)).status().message());
  };
  const PlanKey tree{.kind = OpKind::kAllReduce, .algorithm = Algorithm::kTree};
  EXPECT_THAT(rejection(tree, 2),
              HasSubstr("all_reduce: unsupported by algorithm 'tree' over 2 hosts"));
  EXPECT_EQ(rejection(tree, 3), "");
  EXPECT_EQ(rejection(tree, kMaxHosts), "");
  EXPECT_THAT(rejection({.kind = OpKind::kAllGather, .algorithm = Algorithm::kTree}, 4),
              HasSubstr("all_gather: unsupported by algorithm 'tree'"));
  const PlanKey direct{.kind = OpKind::kAllReduce, .algorithm = Algorithm::kDirect};
  EXPECT_EQ(rejection(direct, kMaxDirectHosts), "");
  EXPECT_THAT(rejection(direct, kMaxDirectHosts + 1), HasSubstr("algorithm 'direct' over 129"));
  EXPECT_THAT(rejection(direct, 1), HasSubstr("over 1 hosts"));
}

}  // namespace tree_plan_test
}  // namespace mccs
