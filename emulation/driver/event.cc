// Events: a record is a point of a stream and the time at which it was reached.

#include <chrono>
#include <cstdio>
#include <utility>

#include "emulation/driver/entry.h"

namespace mccs::emulation {
namespace {

// For calls that query an event or wait for it.
std::optional<CUresult> RejectIfCaptured(const CallContext& session, Event& event) {
  {
    std::lock_guard lock(event.mutex);
    if (event.captured == nullptr) return std::nullopt;
  }
  std::lock_guard lock(session.process->graphs.mutex);
  return session.process->graphs.captures.RejectUseOf(event);
}

std::shared_ptr<Record> LastRecord(Event& event) {
  std::lock_guard lock(event.mutex);
  return event.last;
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (event == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // An event for other processes would need shared memory; no supported program uses one.
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    fprintf(stderr, "emulated CUDA: interprocess events are not supported\n");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto created = std::make_shared<Event>();
  created->flags = flags;
  created->gpu = session.gpu;
  *event = static_cast<CUevent>(session.process->events.Insert(std::move(created)));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  MCCS_ENTER(session);
  return session.process->events.Remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto recorded = session.process->events.Find(event);
  const auto found = session.FindStream(stream);
  if (recorded == nullptr || found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (recorded->gpu != found->options.gpu) return CUDA_ERROR_INVALID_HANDLE;
  const auto captured = session.process->graphs.Reject([&](auto& captures) {
    if ((flags & CU_EVENT_RECORD_EXTERNAL) == 0) return captures.Record(*found, recorded);
    return captures.AddNodeIfCapturing(*found, [&] { return RecordEvent{recorded}; });
  });
  if (captured) return *captured;
  auto record = session.process->engine.EnqueueRecord(found);
  std::lock_guard lock(recorded->mutex);
  recorded->last = std::move(record);
  recorded->captured = nullptr;
  return CUDA_SUCCESS;
}
MCCS_PER_THREAD(cuEventRecordWithFlags, ptsz, (CUevent event, CUstream stream, unsigned int flags),
                event, OwnStream(stream), flags)

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}
MCCS_PER_THREAD(cuEventRecord, ptsz, (CUevent event, CUstream stream), event, OwnStream(stream))

CUresult cuEventQuery(CUevent event) {
  MCCS_ENTER(session);
  const auto found = session.process->events.Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto rejected = RejectIfCaptured(session, *found)) return *rejected;
  if (const auto rejected = RejectUnsafe(session)) return *rejected;
  const std::shared_ptr<Record> record = LastRecord(*found);
  if (record == nullptr) return CUDA_SUCCESS;
  const bool reached = session.process->engine.Poll({&record->point, 1});
  return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  MCCS_ENTER(session);
  const auto found = session.process->events.Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto rejected = RejectIfCaptured(session, *found)) return *rejected;
  if (const auto rejected = RejectUnsafe(session)) return *rejected;
  const std::shared_ptr<Record> record = LastRecord(*found);
  if (record != nullptr && !session.process->engine.Wait({&record->point, 1})) {
    return CUDA_ERROR_DEINITIALIZED;
  }
  session.process->pools.TrimAll();
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  MCCS_ENTER(session);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto first = session.process->events.Find(start);
  const auto second = session.process->events.Find(end);
  if (first == nullptr || second == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (Event* event : {first.get(), second.get()}) {
    if (const auto rejected = RejectIfCaptured(session, *event)) return *rejected;
  }
  const std::shared_ptr<Record> from = LastRecord(*first);
  const std::shared_ptr<Record> to = LastRecord(*second);
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Engine& engine = session.process->engine;
  if (!engine.Poll({&from->point, 1}) || !engine.Poll({&to->point, 1})) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(to->reached - from->reached).count();
  return CUDA_SUCCESS;
}

// The first version of cuEventElapsedTime differs only in its documented errors.
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

}  // extern "C"

}  // namespace mccs::emulation
