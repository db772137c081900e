// All graphs, executable graphs, captures and user objects of the process.
//
// Lock order: GraphState::mutex, then Event::mutex, then the engine's. None of them is held while
// code of the program runs.
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
  HandleTable<GraphNode> nodes;  // before `graphs`: the destructor of a graph removes its nodes
  HandleTable<Graph> graphs;
  HandleTable<GraphExec> execs;
  HandleTable<UserObject> user_objects;
  CaptureTable captures;

  // CaptureTable's checks for callers that do not hold the lock; fast while no capture exists.
  template <typename Make>  // Make: NodeAction()
  std::optional<CUresult> AddNodeIfCapturing(const Stream& stream, Make make) {
    if (!captures.active()) return std::nullopt;
    std::lock_guard lock(mutex);
    return captures.AddNodeIfCapturing(stream, make);
  }
  template <typename Ask>  // Ask: std::optional<CUresult>(CaptureTable&)
  std::optional<CUresult> Reject(Ask ask) {
    if (!captures.active()) return std::nullopt;
    std::lock_guard lock(mutex);
    return ask(captures);
  }

  // Releases the references of a graph and of its children, once `after` is reached. Destructors of
  // objects without references run later, in a thread of the emulation. Removes their handles.
  // REQUIRES: the lock is held. The graph is not used again.
  void Retire(const std::shared_ptr<Graph>& graph, std::vector<Point> after);
  // The same for one object.
  void Release(const std::shared_ptr<UserObject>& object, uint64_t count);

 private:
  void Collect(Graph& graph, std::vector<UserReferences>* references);
  void Destroy(const UserObject& object);  // runs the program's code: no lock is held
  void RunLater(std::function<void()> code, std::vector<Point> after);

  Engine* const engine_;
  std::shared_ptr<Stream> destructor_stream_;  // created when needed
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GRAPH_STATE_H_
