// An executable graph: a plan, the streams that its chains run in, and its launches.
//
// Chain 0 runs in the stream of the launch, the others in streams of the executable graph. A launch
// begins after all earlier work in its stream and after the previous launch of the same executable
// graph. Later work in the stream begins after the whole launch.
//
// THREAD: GraphState::mutex guards it.
#ifndef MCCS_EMULATION_CORE_GRAPH_EXEC_H_
#define MCCS_EMULATION_CORE_GRAPH_EXEC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "emulation/core/engine.h"
#include "emulation/core/graph_plan.h"

namespace mccs::emulation {

class GraphExec {
 public:
  // Takes over references to the graph's user objects. `source`: a copy of the graph it was made
  // from.
  GraphExec(GraphPlan plan, std::shared_ptr<Graph> source, uint64_t flags)
      : plan_(std::move(plan)), source_(std::move(source)), flags_(flags) {}

  void Launch(Engine& engine, const std::shared_ptr<Stream>& stream);

  // Takes the actions and the user objects of another graph of the same shape. `*differing`: the
  // first node that does not match, null if the number of nodes differs. `*retired`: the graph that
  // owns the old references.
  CUgraphExecUpdateResult Update(const Graph& graph, const GraphNode** differing,
                                 std::shared_ptr<Graph>* retired);
  // Replaces the action of a node. Returns false if no such node exists or its type differs.
  bool SetAction(uint64_t node, NodeAction action);
  bool SetEnabled(uint64_t node, bool enabled);
  std::optional<bool> IsEnabled(uint64_t node) const;

  uint64_t flags() const { return flags_; }
  // The point at which the last launch ends; empty before the first launch.
  const std::optional<Point>& last_end() const { return last_end_; }
  // The graph that this was made from, for captured launches and for references.
  const std::shared_ptr<Graph>& source() const { return source_; }

 private:
  std::shared_ptr<Stream> StreamOf(Engine& engine, size_t chain,
                                   const std::shared_ptr<Stream>& launch);
  GraphNode* SourceNode(uint64_t node) const;

  GraphPlan plan_;
  std::shared_ptr<Graph> source_;
  const uint64_t flags_;
  std::set<uint64_t> disabled_;
  std::vector<std::shared_ptr<Stream>> streams_;  // by chain; null until needed
  std::optional<Point> last_end_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_EXEC_H_
