// All graphs, executable graphs, captures and user objects of the process.
//
// Lock order: GraphState::mutex, then Event::mutex, then the engine's. No code of the program runs
// under any of them.
#ifndef MCCS_EMULATION_CORE_GRAPH_STATE_H_
#define MCCS_EMULATION_CORE_GRAPH_STATE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "emulation/core/capture.h"
#include "emulation/core/engine.h"
#include "emulation/core/graph.h"
#include "emulation/core/graph_exec.h"
#include "emulation/core/handle_table.h"

namespace mccs::emulation {

class GraphState {
 public:
  explicit GraphState(Engine* engine) : engine_(engine) {}

  std::mutex mutex;
  HandleTable<GraphNode> nodes;  // before `graphs`, whose end takes nodes out of it
  HandleTable<Graph> graphs;
  HandleTable<GraphExec> execs;
  HandleTable<UserObject> user_objects;
  CaptureTable captures;

  // CaptureTable's questions for callers that do not hold the lock; quick while nothing captures.
  template <typename Make>  // Make: NodeAction()
  std::optional<CUresult> Take(const Stream& stream, Make make) {
    if (!captures.active()) return std::nullopt;
    std::lock_guard lock(mutex);
    return captures.Take(stream, make);
  }
  template <typename Ask>  // Ask: std::optional<CUresult>(CaptureTable&)
  std::optional<CUresult> Refuse(Ask ask) {
    if (!captures.active()) return std::nullopt;
    std::lock_guard lock(mutex);
    return ask(captures);
  }

  // Gives a graph's references back, and those of its children, once `after` is reached;
  // destructors of objects that nobody refers to any more run later, in a thread of the emulation's
  // own. Their handles end.
  // REQUIRES: the lock is held. The graph is not used again.
  void Retire(const std::shared_ptr<Graph>& graph, std::vector<Point> after);
  // Likewise for one object.
  void Release(const std::shared_ptr<UserObject>& object, uint64_t count);

 private:
  void Collect(Graph& graph, std::vector<UserReferences>* references);
  void Destroy(const UserObject& object);  // runs the program's code: no lock is held
  void Later(std::function<void()> code, std::vector<Point> after);

  Engine* const engine_;
  std::shared_ptr<Stream> reaper_;  // made when needed
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_STATE_H_
