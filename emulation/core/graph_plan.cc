#include "emulation/core/graph_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mccs::emulation {
namespace {

class Builder {
 public:
  // Adds the steps of `graph`, all after the steps `before`. `owner`: the node of the launched
  // graph that contains this graph, or 0. Returns the steps without successors, or empty if the
  // graph has a cycle.
  std::optional<std::vector<size_t>> AddGraph(const Graph& graph, const std::vector<size_t>& before,
                                              uint64_t owner);
  GraphPlan Finish();

 private:
  std::optional<std::vector<size_t>> AddNode(const GraphNode& node,
                                             const std::vector<size_t>& before, uint64_t owner);
  size_t AddStep(StepAction action, int gpu, uint64_t owner, const std::vector<size_t>& before);
  size_t ChooseChain(int gpu, const std::vector<size_t>& before);

  GraphPlan plan_;
  std::vector<size_t> tails_;  // by chain: its last step so far
};

// A step that depends on a chain's last step extends that chain; otherwise it opens a new chain. If
// there are kMaxChains already, it joins the least recently used one.
size_t Builder::ChooseChain(int gpu, const std::vector<size_t>& before) {
  size_t resting = tails_.size();
  for (size_t chain = 0; chain < tails_.size(); ++chain) {
    if (plan_.chain_gpus[chain] != gpu) continue;
    if (std::find(before.begin(), before.end(), tails_[chain]) != before.end()) return chain;
    if (resting == tails_.size() || tails_[chain] < tails_[resting]) resting = chain;
  }
  if (tails_.size() >= kMaxChains && resting < tails_.size()) return resting;
  tails_.push_back(0);
  plan_.chain_gpus.push_back(gpu);
  return tails_.size() - 1;
}

size_t Builder::AddStep(StepAction action, int gpu, uint64_t owner,
                        const std::vector<size_t>& before) {
  const size_t chains = tails_.size();
  PlanStep step;
  step.action = std::move(action);
  step.node = owner;
  step.chain = ChooseChain(gpu, before);
  step.root = before.empty() && tails_.size() > chains;
  for (const size_t earlier : before) {
    if (plan_.steps[earlier].chain != step.chain) step.after.push_back(earlier);
  }
  tails_[step.chain] = plan_.steps.size();
  plan_.steps.push_back(std::move(step));
  return plan_.steps.size() - 1;
}

std::optional<std::vector<size_t>> Builder::AddNode(const GraphNode& node,
                                                    const std::vector<size_t>& before,
                                                    uint64_t owner) {
  if (const auto* child = std::get_if<ChildGraph>(&node.action)) {
    return AddGraph(*child->graph, before, owner);
  }
  std::vector<size_t> last = before;
  for (StepAction& action : StepsOf(node.action)) {
    last = {AddStep(std::move(action), node.gpu, owner, last)};
  }
  return last;
}

std::optional<std::vector<size_t>> Builder::AddGraph(const Graph& graph,
                                                     const std::vector<size_t>& before,
                                                     uint64_t owner) {
  const auto order = graph.TopologicalOrder();
  if (!order) return std::nullopt;
  std::map<const GraphNode*, std::vector<size_t>> done;  // the last steps of each node
  std::map<const GraphNode*, bool> followed;
  for (const GraphNode* node : *order) {
    std::vector<size_t> earlier;
    for (const GraphNode* dependency : node->dependencies) {
      const std::vector<size_t>& steps = done.at(dependency);
      earlier.insert(earlier.end(), steps.begin(), steps.end());
      followed[dependency] = true;
    }
    if (node->dependencies.empty()) earlier = before;
    const auto last = AddNode(*node, earlier, owner == 0 ? node->id : owner);
    if (!last) return std::nullopt;
    done[node] = *last;
  }
  std::vector<size_t> ends;
  for (const GraphNode* node : *order) {
    if (!followed[node]) ends.insert(ends.end(), done[node].begin(), done[node].end());
  }
  return order->empty() ? before : ends;
}

GraphPlan Builder::Finish() {
  plan_.ends = tails_;
  return std::move(plan_);
}

struct StepMaker {
  std::vector<StepAction> operator()(const KernelCall& call) const { return {WorkOf(call)}; }
  std::vector<StepAction> operator()(const CopyRows& copy) const { return {Work{copy}}; }
  std::vector<StepAction> operator()(const FillRows& fill) const { return {Work{fill}}; }
  std::vector<StepAction> operator()(const HostCall& call) const {
    return {Work{ProgramCode{[call] { call.function(call.data); }}}};
  }
  std::vector<StepAction> operator()(const ChildGraph&) const { return {}; }
  std::vector<StepAction> operator()(const DoNothing&) const { return {Work{Join{}}}; }
  std::vector<StepAction> operator()(const AwaitEvent& wait) const { return {wait}; }
  std::vector<StepAction> operator()(const RecordEvent& record) const { return {record}; }
  std::vector<StepAction> operator()(const WordOperations& words) const {
    if (words.works.empty()) return {Work{Join{}}};
    return {words.works.begin(), words.works.end()};
  }
};

}  // namespace

std::vector<StepAction> StepsOf(const NodeAction& action) {
  return std::visit(StepMaker{}, action);
}

std::optional<GraphPlan> BuildPlan(const Graph& graph) {
  Builder builder;
  if (!builder.AddGraph(graph, {}, 0)) return std::nullopt;
  return builder.Finish();
}

}  // namespace mccs::emulation
