// Streams, host functions and events.

#include <utility>

#include "emulation/driver/entry.h"

using mccs::emulation::OwnStream;
using mccs::emulation::Point;
using mccs::emulation::ProgramCode;
using mccs::emulation::Stream;
using mccs::emulation::StreamKind;

namespace {

constexpr int kGreatestPriority = -5;

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

// What the stream has been asked to do, it still does.
CUresult cuStreamDestroy(CUstream stream) {
  MCCS_ENTER(session);
  return session.process->streams.Remove(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamQuery(CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  mccs::emulation::Engine& engine = session.process->engine;
  return engine.Poll(engine.PendingOf(found)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
MCCS_PER_THREAD(cuStreamQuery, ptsz, (CUstream stream), OwnStream(stream))

CUresult cuStreamSynchronize(CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  mccs::emulation::Engine& engine = session.process->engine;
  engine.Wait(engine.PendingOf(found));
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamSynchronize, ptsz, (CUstream stream), OwnStream(stream))

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  const auto waited = session.process->events.Find(event);
  if (found == nullptr || waited == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<Point> after;
  {
    std::lock_guard lock(waited->mutex);
    if (waited->last == nullptr) return CUDA_SUCCESS;  // never recorded: nothing to wait for
    after.push_back(waited->last->point);
  }
  session.process->engine.Enqueue(found, mccs::emulation::Join{}, std::move(after));
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned int flags),
                OwnStream(stream), event, flags)

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  MCCS_ENTER_CONTEXT(session);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
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
  session.process->engine.Enqueue(
      found, ProgramCode{[stream, callback, data] { callback(stream, CUDA_SUCCESS, data); }});
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamAddCallback, ptsz,
                (CUstream stream, CUstreamCallback callback, void* data, unsigned int flags),
                OwnStream(stream), callback, data, flags)

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = found->options.priority;
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamGetPriority, ptsz, (CUstream stream, int* priority), OwnStream(stream),
                priority)

CUresult cuStreamGetFlags(CUstream stream, unsigned int* flags) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = found->options.blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamGetFlags, ptsz, (CUstream stream, unsigned int* flags), OwnStream(stream),
                flags)

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = found->id;
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamGetId, ptsz, (CUstream stream, unsigned long long* id), OwnStream(stream),
                id)

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = found->options.gpu;
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamGetDevice, ptsz, (CUstream stream, CUdevice* device), OwnStream(stream),
                device)

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  MCCS_ENTER_CONTEXT(session);
  const auto found = session.FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = session.ContextOf(found->options.gpu);
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamGetCtx, ptsz, (CUstream stream, CUcontext* context), OwnStream(stream),
                context)

// Nothing captures: cuStreamBeginCapture is one of the functions that are not implemented.
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  MCCS_ENTER_CONTEXT(session);
  if (session.FindStream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuStreamIsCapturing, ptsz, (CUstream stream, CUstreamCaptureStatus* status),
                OwnStream(stream), status)

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*,
                                CUgraph*, const CUgraphNode**, const CUgraphEdgeData**, size_t*) {
  return cuStreamIsCapturing(stream, status);
}
MCCS_PER_THREAD(cuStreamGetCaptureInfo, ptsz,
                (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                 const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count),
                OwnStream(stream), status, id, graph, nodes, edges, count)

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*,
                                   CUgraph*, const CUgraphNode**, size_t*) {
  return cuStreamIsCapturing(stream, status);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  MCCS_ENTER(session);
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, mccs::emulation::CurrentThread().capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
