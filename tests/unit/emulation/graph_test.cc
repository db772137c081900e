// Graphs and their plans, without CUDA's functions.

#include "emulation/core/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "emulation/core/graph_exec.h"
#include "emulation/core/graph_plan.h"

namespace mccs::emulation {
namespace graph_test {

// One engine for all tests. Never destroyed, because its threads never end.
Engine& TheEngine() {
  static Engine* const engine = new Engine(2, 32);
  return *engine;
}

class GraphTest : public testing::Test {
 protected:
  // A node that appends `name` to trace_.
  GraphNode* Add(char name, std::vector<GraphNode*> after, int gpu = 0) {
    const PlainNote note{&trace_, name};
    return graph_->Add(HostCall{Append, notes_.emplace_back(new PlainNote(note)).get()}, gpu,
                       after);
  }
  struct PlainNote {
    std::string* trace;
    char name;
  };
  static void CUDA_CB Append(void* data) {
    static std::mutex mutex;  // nodes of different branches may run concurrently
    const auto* note = static_cast<const PlainNote*>(data);
    const std::lock_guard lock(mutex);
    note->trace->push_back(note->name);
  }
  void Run(GraphExec& exec, const std::shared_ptr<Stream>& stream) {
    exec.Launch(engine_, stream);
    engine_.Wait(engine_.PendingOf(stream));
  }
  GraphExec MakeExec() {
    std::shared_ptr<Graph> source = graph_->Clone();
    GraphPlan plan = *BuildPlan(*source);
    return GraphExec(std::move(plan), std::move(source), 0);
  }

  HandleTable<GraphNode> names_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>(&names_);
  std::vector<std::unique_ptr<PlainNote>> notes_;
  std::string trace_;
  Engine& engine_ = TheEngine();
};

TEST_F(GraphTest, ARowOfNodesIsOneChain) {
  GraphNode* last = Add('a', {});
  for (const char name : {'b', 'c', 'd'}) last = Add(name, {last});
  const GraphPlan plan = *BuildPlan(*graph_);
  EXPECT_EQ(plan.chain_gpus.size(), 1u);
  EXPECT_EQ(plan.steps.size(), 4u);
  for (const PlanStep& step : plan.steps) EXPECT_TRUE(step.after.empty());
}

TEST_F(GraphTest, ADiamondIsTwoChainsThatMeet) {
  GraphNode* const top = Add('a', {});
  GraphNode* const left = Add('b', {top});
  GraphNode* const right = Add('c', {top});
  Add('d', {left, right});
  const GraphPlan plan = *BuildPlan(*graph_);
  ASSERT_EQ(plan.chain_gpus.size(), 2u);
  EXPECT_NE(plan.steps[1].chain, plan.steps[2].chain);
  EXPECT_EQ(plan.steps[2].after, std::vector<size_t>{0});
  EXPECT_EQ(plan.steps[3].after.size(), 1u);
}

TEST_F(GraphTest, NodesOfAnotherGpuHaveAChainOfTheirOwn) {
  GraphNode* const first = Add('a', {}, 0);
  Add('b', {first}, 1);
  const GraphPlan plan = *BuildPlan(*graph_);
  EXPECT_EQ(plan.chain_gpus, (std::vector<int>{0, 1}));
  GraphExec exec = MakeExec();
  Run(exec, engine_.CreateStream({.gpu = 1}));
  EXPECT_EQ(trace_, "ab");
}

TEST_F(GraphTest, ACycleHasNoPlan) {
  GraphNode* const first = Add('a', {});
  GraphNode* const second = Add('b', {first});
  EXPECT_TRUE(graph_->Connect(second, first));
  EXPECT_FALSE(graph_->Connect(second, first));
  EXPECT_FALSE(BuildPlan(*graph_).has_value());
  EXPECT_TRUE(graph_->Disconnect(second, first));
  EXPECT_TRUE(BuildPlan(*graph_).has_value());
}

TEST_F(GraphTest, ManyBranchesShareChains) {
  for (size_t i = 0; i < 3 * kMaxChains; ++i) Add('x', {});
  EXPECT_EQ(BuildPlan(*graph_)->chain_gpus.size(), kMaxChains);
  GraphExec exec = MakeExec();
  Run(exec, engine_.CreateStream({.gpu = 0}));
  EXPECT_EQ(trace_.size(), 3 * kMaxChains);
}

TEST_F(GraphTest, RandomGraphsRunInAnOrderThatTheirEdgesAllow) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    graph_ = std::make_shared<Graph>(&names_);
    trace_.clear();
    std::vector<GraphNode*> nodes;
    std::vector<std::pair<char, char>> edges;
    for (char name = 'A'; name < 'A' + 20; ++name) {
      std::vector<GraphNode*> after;
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (random() % 6 != 0) continue;
        after.push_back(nodes[i]);
        edges.emplace_back(static_cast<char>('A' + i), name);
      }
      nodes.push_back(Add(name, after, static_cast<int>(random() % 2)));
    }
    GraphExec exec = MakeExec();
    const auto stream = engine_.CreateStream({.gpu = 0});
    Run(exec, stream);
    Run(exec, stream);
    ASSERT_EQ(trace_.size(), 40u);
    for (const auto& [from, to] : edges) {
      EXPECT_LT(trace_.find(from), trace_.find(to)) << trace_;
      EXPECT_LT(trace_.rfind(from), trace_.rfind(to)) << trace_;
    }
    std::string halves[] = {trace_.substr(0, 20), trace_.substr(20)};
    for (std::string& half : halves) std::sort(half.begin(), half.end());
    EXPECT_EQ(halves[0], halves[1]);
  }
}

TEST_F(GraphTest, DisabledNodesOnlyKeepTheOrder) {
  GraphNode* const first = Add('a', {});
  GraphNode* const second = Add('b', {first});
  Add('c', {second});
  GraphExec exec = MakeExec();
  const auto stream = engine_.CreateStream({.gpu = 0});
  EXPECT_TRUE(exec.SetEnabled(second->id, false));
  Run(exec, stream);
  EXPECT_EQ(trace_, "ac");
  EXPECT_TRUE(exec.SetEnabled(second->id, true));
  Run(exec, stream);
  EXPECT_EQ(trace_, "acabc");
  EXPECT_FALSE(exec.SetEnabled(12345678, true));
}

TEST_F(GraphTest, RemovingANodeRemovesItsEdgesAndItsHandle) {
  GraphNode* const first = Add('a', {});
  GraphNode* const second = Add('b', {first});
  graph_->Remove(first);
  EXPECT_TRUE(second->dependencies.empty());
  EXPECT_EQ(names_.Find(first), nullptr);
  EXPECT_EQ(graph_->nodes().size(), 1u);
}

}  // namespace graph_test
}  // namespace mccs::emulation
