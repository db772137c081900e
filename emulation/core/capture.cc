#include "emulation/core/capture.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mccs::emulation {
namespace {

// Returns false if a forked stream was not joined: its last nodes do not all precede the origin's.
bool IsJoined(const Capture& capture) {
  const auto joined = WithAncestors(capture.streams.at(capture.origin.get()).last);
  for (const auto& [stream, own] : capture.streams) {
    for (const GraphNode* node : own.last) {
      if (std::find(joined.begin(), joined.end(), node) == joined.end()) return false;
    }
  }
  return true;
}

bool HasBlockingStream(const Capture& capture, int gpu) {
  return std::any_of(capture.streams.begin(), capture.streams.end(), [gpu](const auto& entry) {
    return entry.second.stream->options.blocking && entry.second.stream->options.gpu == gpu;
  });
}

bool HasStreamOf(const Capture& capture, int gpu) {
  return std::any_of(capture.streams.begin(), capture.streams.end(),
                     [gpu](const auto& entry) { return entry.second.stream->options.gpu == gpu; });
}

}  // namespace

CUresult CaptureTable::Begin(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                             std::shared_ptr<Graph> graph, bool into_existing_graph,
                             std::span<GraphNode* const> after) {
  if (stream->options.kind == StreamKind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (Find(*stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id_;
  capture->mode = mode;
  capture->thread = gettid();
  capture->origin = stream;
  capture->graph = std::move(graph);
  capture->into_existing_graph = into_existing_graph;
  capture->streams[stream.get()] = {stream, {after.begin(), after.end()}, {}};
  captures_.push_back(std::move(capture));
  count_.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult CaptureTable::End(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* graph) {
  const std::shared_ptr<Capture> capture = FindShared(*stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return Invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != gettid()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  Erase(capture);
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!IsJoined(*capture)) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = capture->graph;
  return CUDA_SUCCESS;
}

void CaptureTable::OnStreamDestroyed(const Stream& stream) {
  const std::shared_ptr<Capture> capture = FindShared(stream);
  if (capture == nullptr) return;
  capture->valid = capture->valid && capture->origin.get() != &stream && IsJoined(*capture);
  if (capture->origin.get() == &stream) Erase(capture);  // no stream could end it
}

Capture* CaptureTable::Find(const Stream& stream) const { return FindShared(stream).get(); }

std::shared_ptr<Capture> CaptureTable::FindShared(const Stream& stream) const {
  for (const std::shared_ptr<Capture>& capture : captures_) {
    if (capture->streams.count(&stream) > 0) return capture;
  }
  return nullptr;
}

void CaptureTable::Erase(const std::shared_ptr<Capture>& capture) {
  std::erase(captures_, capture);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

CUresult CaptureTable::Invalidate(Capture& capture, CUresult why) {
  const CUresult result = capture.valid ? why : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture.valid = false;
  return result;
}

bool CaptureTable::LegacyIsBlocked(const Stream& stream) const {
  return stream.options.kind == StreamKind::kLegacy &&
         std::any_of(captures_.begin(), captures_.end(), [&stream](const auto& capture) {
           return HasBlockingStream(*capture, stream.options.gpu);
         });
}

std::optional<CUresult> CaptureTable::RejectLegacy(const Stream& stream) {
  if (!LegacyIsBlocked(stream)) return std::nullopt;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    if (HasBlockingStream(*capture, stream.options.gpu)) capture->valid = false;
  }
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

std::optional<CUresult> CaptureTable::AddNodeIfCapturing(const Stream& stream,
                                                         const std::function<NodeAction()>& make) {
  if (const auto rejected = RejectLegacy(stream)) return rejected;
  Capture* const capture = Find(stream);
  if (capture == nullptr) return std::nullopt;
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*>& last = capture->streams.at(&stream).last;
  last = {capture->graph->Add(make(), stream.options.gpu, last)};
  return CUDA_SUCCESS;
}

std::optional<CUresult> CaptureTable::Record(const Stream& stream,
                                             const std::shared_ptr<Event>& event) {
  if (const auto rejected = RejectLegacy(stream)) return rejected;
  const std::shared_ptr<Capture> capture = FindShared(stream);
  if (capture == nullptr) return std::nullopt;
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto record = std::make_shared<CapturedRecord>();
  record->capture = capture;
  record->nodes = capture->streams.at(&stream).last;
  std::lock_guard lock(event->mutex);
  event->captured = std::move(record);
  event->last = nullptr;
  return CUDA_SUCCESS;
}

std::optional<CUresult> CaptureTable::Await(const std::shared_ptr<Stream>& stream,
                                            const std::shared_ptr<Event>& event, bool external) {
  if (const auto rejected = RejectLegacy(*stream)) return rejected;
  Capture* const own = Find(*stream);
  if (own != nullptr && !own->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own != nullptr && external)
    return AddNodeIfCapturing(*stream, [&] { return AwaitEvent{event}; });
  std::lock_guard lock(event->mutex);
  if (event->captured == nullptr) {
    if (own == nullptr) return std::nullopt;
    return Invalidate(*own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  const std::shared_ptr<Capture> other = event->captured->capture.lock();
  if (other == nullptr) {  // that capture has ended
    if (own != nullptr) return Invalidate(*own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (!other->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (own != nullptr && own != other.get()) {
    Invalidate(*other, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    return Invalidate(*own, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (stream->options.kind == StreamKind::kLegacy) {
    return Invalidate(*other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  CapturingStream& joined = other->streams[stream.get()];
  joined.stream = stream;
  AppendMissing(&joined.last, event->captured->nodes);
  return CUDA_SUCCESS;
}

std::optional<CUresult> CaptureTable::RejectUseOf(const Stream& stream) {
  if (const auto rejected = RejectLegacy(stream)) return rejected;
  Capture* const capture = Find(stream);
  if (capture == nullptr) return std::nullopt;
  return Invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

std::optional<CUresult> CaptureTable::RejectUseOf(Event& event) {
  std::lock_guard lock(event.mutex);
  if (event.captured == nullptr) return std::nullopt;
  if (const auto capture = event.captured->capture.lock()) capture->valid = false;
  return CUDA_ERROR_CAPTURED_EVENT;
}

std::optional<CUresult> CaptureTable::RejectUseOfGpu(int gpu) {
  bool any = false;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    if (!HasStreamOf(*capture, gpu)) continue;
    capture->valid = false;
    any = true;
  }
  if (!any) return std::nullopt;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

std::optional<CUresult> CaptureTable::RejectUnsafe(CUstreamCaptureMode mode) {
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return std::nullopt;
  bool any = false;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool ours = capture->thread == gettid();
    const bool forbids = ours ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                              : mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                    capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    capture->valid = false;
    any = true;
  }
  if (!any) return std::nullopt;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace mccs::emulation
