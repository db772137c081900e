#include "emulation/core/graph_state.h"

#include <utility>

namespace mccs::emulation {

void GraphState::Destroy(const UserObject& object) {
  user_objects.Remove(&object);
  object.destroy(object.pointer);
}

// Moves out the references of a graph and of all graphs in it, and removes their handles.
void GraphState::Collect(Graph& graph, std::vector<UserReferences>* references) {
  graphs.Remove(&graph);
  if (!graph.objects().empty()) references->push_back(std::move(graph.objects()));
  graph.objects() = {};
  for (const std::shared_ptr<GraphNode>& node : graph.nodes()) {
    if (auto* child = std::get_if<ChildGraph>(&node->action)) Collect(*child->graph, references);
  }
}

void GraphState::RunLater(std::function<void()> code, std::vector<Point> after) {
  if (destructor_stream_ == nullptr) {
    destructor_stream_ = engine_->CreateStream({.gpu = 0, .blocking = false, .internal = true});
  }
  engine_->Enqueue(destructor_stream_, ProgramCode{std::move(code)}, std::move(after));
}

void GraphState::Retire(const std::shared_ptr<Graph>& graph, std::vector<Point> after) {
  auto references = std::make_shared<std::vector<UserReferences>>();
  Collect(*graph, references.get());
  if (references->empty()) return;
  const auto release = [this, references] {
    for (UserReferences& held : *references) {
      for (const std::shared_ptr<UserObject>& object : held.ReleaseAll()) Destroy(*object);
    }
  };
  RunLater(release, std::move(after));
}

void GraphState::Release(const std::shared_ptr<UserObject>& object, uint64_t count) {
  if (object->references.fetch_sub(count) != count) return;
  RunLater([this, object] { Destroy(*object); }, {});
}

}  // namespace mccs::emulation
