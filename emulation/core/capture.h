// Stream capture: work that is enqueued into a capturing stream becomes nodes of a graph.
//
// A capture begins in one stream, its origin. Another stream joins by waiting for an event that was
// recorded in the capture. When the capture ends, each joined stream must have been joined back by
// an event. An illegal call invalidates the capture; its streams stay in it until the capture ends.
//
// THREAD: GraphState::mutex (graph_state.h) guards everything except `active()`.
#ifndef MCCS_EMULATION_CORE_CAPTURE_H_
#define MCCS_EMULATION_CORE_CAPTURE_H_

#include <cuda.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "emulation/core/engine.h"
#include "emulation/core/graph.h"

namespace mccs::emulation {

struct CapturingStream {
  std::shared_ptr<Stream> stream;
  std::vector<GraphNode*> last;        // the next node depends on these
  std::vector<CUgraphEdgeData> edges;  // as many, all zero; for queries
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  pid_t thread = 0;  // thread that began it
  std::shared_ptr<Stream> origin;
  std::shared_ptr<Graph> graph;
  bool into_existing_graph = false;  // cuStreamBeginCaptureToGraph
  bool valid = true;
  std::map<const Stream*, CapturingStream> streams;
};

class CaptureTable {
 public:
  // Whether captures exist. Nearly always false, and then callers do not take the lock.
  // Relaxed: a thread sees its own captures; the order with captures of other threads is undefined.
  bool active() const { return count_.load(std::memory_order_relaxed) > 0; }

  CUresult Begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                 std::shared_ptr<Graph> graph, bool into_existing_graph,
                 std::span<GraphNode* const> after);
  // `*graph`: the captured graph, null on an error.
  CUresult End(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph);
  // Called when the stream's handle is destroyed.
  void OnStreamDestroyed(const Stream& stream);

  // Returns null if the stream does not capture.
  Capture* Find(const Stream& stream) const;

  // Handles a call that enqueues into the stream. Empty: the stream does not capture, and the
  // caller enqueues the work. Otherwise the result of the call; `make` was called for a new node.
  std::optional<CUresult> AddNodeIfCapturing(const Stream& stream,
                                             const std::function<NodeAction()>& make);
  std::optional<CUresult> Record(const Stream& stream, const std::shared_ptr<Event>& event);
  std::optional<CUresult> Await(const std::shared_ptr<Stream>& stream,
                                const std::shared_ptr<Event>& event, bool external);

  // Calls that a capture does not allow. Empty: the call affects no capture.
  std::optional<CUresult> RejectUseOf(const Stream& stream);  // synchronize, query, callback
  std::optional<CUresult> RejectUseOf(Event& event);
  std::optional<CUresult> RejectUseOfGpu(int gpu);
  // Calls that may block on streams, in a thread that has chosen `mode`.
  std::optional<CUresult> RejectUnsafe(CUstreamCaptureMode mode);
  // Whether the legacy default stream would have to wait for a capturing stream.
  bool LegacyIsBlocked(const Stream& stream) const;

 private:
  std::shared_ptr<Capture> FindShared(const Stream& stream) const;
  std::optional<CUresult> RejectLegacy(const Stream& stream);
  CUresult Invalidate(Capture& capture, CUresult why);
  void Erase(const std::shared_ptr<Capture>& capture);

  std::vector<std::shared_ptr<Capture>> captures_;
  std::atomic<int> count_{0};
  uint64_t last_id_ = 0;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_CAPTURE_H_
