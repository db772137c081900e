// Streams, host functions and events.

#include <utility>

#include "emulation/driver/entry.h"

namespace mccs::emulation {
namespace {

constexpr int kGreatestPriority = -5;

// Writes what `ask` returns for a stream.
template <typename Answer, typename Ask>
CUresult ReturnStreamValue(CUstream stream, Answer* answer, Ask ask) {
  MCCS_ENTER_CONTEXT(session);
  const std::shared_ptr<Stream> found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (answer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *answer = ask(session, *found);
  return CUDA_SUCCESS;
}

// Handles a wait that involves a capture: of the stream, or of the stream that recorded the event.
std::optional<CUresult> AwaitCaptured(const CallContext& session,
                                      const std::shared_ptr<Stream>& stream,
                                      const std::shared_ptr<Event>& event, unsigned flags) {
  bool involved = session.process->graphs.captures.active();
  if (!involved) {
    std::lock_guard lock(event->mutex);
    involved = event->captured != nullptr;
  }
  if (!involved) return std::nullopt;
  std::lock_guard lock(session.process->graphs.mutex);
  const bool external = (flags & CU_EVENT_WAIT_EXTERNAL) != 0;
  return session.process->graphs.captures.Await(stream, event, external);
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  MCCS_ENTER_CONTEXT(session);
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int clamped = priority > 0                   ? 0
                      : priority < kGreatestPriority ? kGreatestPriority
                                                     : priority;
  auto created =
      session.process->engine.CreateStream({.gpu = session.gpu,
                                            .kind = StreamKind::kCreated,
                                            .blocking = (flags & CU_STREAM_NON_BLOCKING) == 0,
                                            .priority = clamped});
  *stream = static_cast<CUstream>(session.process->streams.Insert(std::move(created)));
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

// Work that is already enqueued still runs.
CUresult cuStreamDestroy(CUstream stream) {
  MCCS_ENTER(session);
  const std::shared_ptr<Stream> removed = session.process->streams.Remove(stream);
  if (removed == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  session.process->graphs.Reject([&](auto& captures) -> std::optional<CUresult> {
    captures.OnStreamDestroyed(*removed);
    return std::nullopt;
  });
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto rejected = RejectIfCapturing(session, *found)) return *rejected;
  Engine& engine = session.process->engine;
  return engine.Poll(engine.PendingOf(found)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
MCCS_PER_THREAD(cuStreamQuery, ptsz, (CUstream stream), OwnStream(stream))

CUresult cuStreamSynchronize(CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto rejected = RejectIfCapturing(session, *found)) return *rejected;
  Engine& engine = session.process->engine;
  if (!engine.Wait(engine.PendingOf(found))) return CUDA_ERROR_DEINITIALIZED;
  session.process->pools.TrimAll();
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamSynchronize, ptsz, (CUstream stream), OwnStream(stream))

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  const auto waited = session.process->events.Find(event);
  if (found == nullptr || waited == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto captured = AwaitCaptured(session, found, waited, flags)) return *captured;
  std::vector<Point> after;
  {
    std::lock_guard lock(waited->mutex);
    if (waited->last == nullptr) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    after.push_back(waited->last->point);
  }
  session.process->engine.Enqueue(found, Join{}, std::move(after));
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned int flags),
                OwnStream(stream), event, flags)

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  MCCS_ENTER_CONTEXT(session);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto captured = session.process->graphs.AddNodeIfCapturing(*found, [=] {
    return HostCall{function, data};
  });
  if (captured) return *captured;
  session.process->engine.Enqueue(found, ProgramCode{[function, data] { function(data); }});
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuLaunchHostFunc, ptsz, (CUstream stream, CUhostFn function, void* data),
                OwnStream(stream), function, data)

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                             unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto rejected = RejectIfCapturing(session, *found)) return *rejected;
  session.process->engine.Enqueue(
      found, ProgramCode{[stream, callback, data] { callback(stream, CUDA_SUCCESS, data); }});
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamAddCallback, ptsz,
                (CUstream stream, CUstreamCallback callback, void* data, unsigned int flags),
                OwnStream(stream), callback, data, flags)

}  // extern "C"

// Defines a function that returns `value` for a stream; `value` may use `session` and `found`.
#define MCCS_STREAM_QUERY(name, Answer, value)                                                 \
  MCCS_STREAM_CALL(                                                                            \
      name,                                                                                    \
      ReturnStreamValue(stream, answer,                                                        \
                        []([[maybe_unused]] const CallContext& session,                        \
                           [[maybe_unused]] const Stream& found) -> Answer { return value; }), \
      CUstream stream, Answer* answer)

MCCS_STREAM_QUERY(cuStreamGetPriority, int, found.options.priority)
MCCS_STREAM_QUERY(cuStreamGetFlags, unsigned int,
                  found.options.blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING)
MCCS_STREAM_QUERY(cuStreamGetId, unsigned long long, found.id)
MCCS_STREAM_QUERY(cuStreamGetDevice, CUdevice, found.options.gpu)
MCCS_STREAM_QUERY(cuStreamGetCtx, CUcontext, session.ContextOf(found.options.gpu))

namespace {

// Green contexts are not supported, so a stream never belongs to one.
CUresult GetStreamContext(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}

}  // namespace

MCCS_STREAM_CALL(cuStreamGetCtx_v2, GetStreamContext(stream, context, green), CUstream stream,
                 CUcontext* context, CUgreenCtx* green)

}  // namespace mccs::emulation
