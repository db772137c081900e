#include "emulation/core/graph_exec.h"

#include <algorithm>
#include <map>

namespace mccs::emulation {
namespace {

// Builds the work that one launch enqueues.
class Launching {
 public:
  size_t Add(const std::shared_ptr<Stream>& stream, Work work, std::vector<size_t> after_items) {
    items_.push_back({stream, std::move(work), {}, std::move(after_items)});
    return items_.size() - 1;
  }
  size_t AddStep(const std::shared_ptr<Stream>& stream, const StepAction& action,
                 std::vector<size_t> after) {
    if (const auto* work = std::get_if<Work>(&action)) return Add(stream, *work, std::move(after));
    if (const auto* record = std::get_if<RecordEvent>(&action)) {
      auto reached = std::make_shared<Record>();
      const size_t item = Add(stream, ReachRecord{reached}, std::move(after));
      recorded_[record->event] = {item, std::move(reached)};
      return item;
    }
    return AddAwait(stream, std::get<AwaitEvent>(action).event, std::move(after));
  }
  void AddPoint(size_t item, const Point& point) { items_[item].after.push_back(point); }

  std::vector<Point> Enqueue(Engine& engine) {
    std::vector<Point> points = engine.EnqueueAll(std::move(items_));
    for (auto& [event, record] : recorded_) {
      record.second->point = points[record.first];
      std::lock_guard lock(event->mutex);
      event->last = std::move(record.second);
      event->captured = nullptr;
    }
    return points;
  }

 private:
  // Waits for an event: its record earlier in this launch, or else its latest record.
  size_t AddAwait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event,
                  std::vector<size_t> after) {
    const auto found = recorded_.find(event);
    if (found != recorded_.end()) after.push_back(found->second.first);
    const size_t item = Add(stream, Join{}, std::move(after));
    std::lock_guard lock(event->mutex);
    if (found == recorded_.end() && event->last != nullptr) AddPoint(item, event->last->point);
    return item;
  }

  std::vector<EnqueueItem> items_;
  std::map<std::shared_ptr<Event>, std::pair<size_t, std::shared_ptr<Record>>> recorded_;
};

// Returns the positions of a node's dependencies.
std::vector<size_t> PlacesOf(const Graph& graph, const GraphNode& node) {
  std::vector<size_t> places;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto& all = node.dependencies;
    if (std::find(all.begin(), all.end(), graph.nodes()[i].get()) != all.end()) places.push_back(i);
  }
  return places;
}

CUgraphExecUpdateResult Compare(const Graph& ours, const Graph& theirs,
                                const GraphNode** differing) {
  *differing = nullptr;
  if (ours.nodes().size() != theirs.nodes().size()) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  for (size_t i = 0; i < ours.nodes().size(); ++i) {
    const GraphNode& own = *ours.nodes()[i];
    const GraphNode& other = *theirs.nodes()[i];
    *differing = &other;
    if (TypeOf(own.action) != TypeOf(other.action)) {
      return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    }
    if (PlacesOf(ours, own) != PlacesOf(theirs, other)) {
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    if (own.gpu != other.gpu) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (const auto* child = std::get_if<ChildGraph>(&own.action)) {
      const GraphNode* inside = nullptr;
      const CUgraphExecUpdateResult result =
          Compare(*child->graph, *std::get<ChildGraph>(other.action).graph, &inside);
      if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
    }
  }
  *differing = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace

std::shared_ptr<Stream> GraphExec::StreamOf(Engine& engine, size_t chain,
                                            const std::shared_ptr<Stream>& launch) {
  if (chain == 0 && plan_.chain_gpus[0] == launch->options.gpu) return launch;
  streams_.resize(std::max(streams_.size(), plan_.chain_gpus.size()));
  if (streams_[chain] == nullptr) {
    streams_[chain] = engine.CreateStream({.gpu = plan_.chain_gpus[chain], .blocking = false});
  }
  return streams_[chain];
}

void GraphExec::Launch(Engine& engine, const std::shared_ptr<Stream>& stream) {
  Launching launching;
  const size_t start = launching.Add(stream, Join{}, {});
  if (last_end_) launching.AddPoint(start, *last_end_);
  std::vector<size_t> items;
  for (const PlanStep& step : plan_.steps) {
    std::vector<size_t> after;
    for (const size_t earlier : step.after) after.push_back(items[earlier]);
    if (step.root) after.push_back(start);
    const std::shared_ptr<Stream> own = StreamOf(engine, step.chain, stream);
    const bool enabled = disabled_.count(step.node) == 0;
    items.push_back(enabled ? launching.AddStep(own, step.action, std::move(after))
                            : launching.Add(own, Join{}, std::move(after)));
  }
  std::vector<size_t> ends;
  for (const size_t end : plan_.ends) ends.push_back(items[end]);
  launching.Add(stream, Join{}, std::move(ends));
  last_end_ = launching.Enqueue(engine).back();
}

GraphNode* GraphExec::SourceNode(uint64_t node) const {
  for (const std::shared_ptr<GraphNode>& candidate : source_->nodes()) {
    if (candidate->cloned_from == node) return candidate.get();
  }
  return nullptr;
}

CUgraphExecUpdateResult GraphExec::Update(const Graph& graph, const GraphNode** differing,
                                          std::shared_ptr<Graph>* retired) {
  const CUgraphExecUpdateResult result = Compare(*source_, graph, differing);
  if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
  std::shared_ptr<Graph> source = graph.Clone();
  std::set<uint64_t> disabled;
  for (size_t i = 0; i < source->nodes().size(); ++i) {
    const GraphNode& old = *source_->nodes()[i];
    source->nodes()[i]->cloned_from = old.cloned_from;  // the program keeps using those handles
    if (disabled_.count(old.id) > 0) disabled.insert(source->nodes()[i]->id);
  }
  *retired = std::exchange(source_, std::move(source));
  disabled_ = std::move(disabled);
  plan_ = *BuildPlan(*source_);
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

bool GraphExec::SetAction(uint64_t node, NodeAction action) {
  GraphNode* const own = SourceNode(node);
  if (own == nullptr || TypeOf(own->action) != TypeOf(action)) return false;
  own->action = std::move(action);
  plan_ = *BuildPlan(*source_);
  return true;
}

bool GraphExec::SetEnabled(uint64_t node, bool enabled) {
  const GraphNode* const own = SourceNode(node);
  if (own == nullptr) return false;
  if (enabled) {
    disabled_.erase(own->id);
  } else {
    disabled_.insert(own->id);
  }
  return true;
}

std::optional<bool> GraphExec::IsEnabled(uint64_t node) const {
  const GraphNode* const own = SourceNode(node);
  if (own == nullptr) return std::nullopt;
  return disabled_.count(own->id) == 0;
}

}  // namespace mccs::emulation
