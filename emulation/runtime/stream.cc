// Streams, events and host functions.

#include "emulation/runtime/entry.h"

using mccs::emulation::OwnStream;
using mccs::emulation::Report;
using mccs::emulation::WithContext;
using mccs::emulation::WithDriver;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return WithContext([=] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return WithContext([=] { return cuStreamDestroy(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return WithContext([=] { return cuStreamSynchronize(stream); });
}
MCCS_PER_THREAD(cudaStreamSynchronize, ptsz, (cudaStream_t stream), OwnStream(stream))

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return WithContext([=] { return cuStreamQuery(stream); });
}
MCCS_PER_THREAD(cudaStreamQuery, ptsz, (cudaStream_t stream), OwnStream(stream))

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return WithContext([=] { return cuStreamWaitEvent(stream, event, flags); });
}
MCCS_PER_THREAD(cudaStreamWaitEvent, ptsz,
                (cudaStream_t stream, cudaEvent_t event, unsigned int flags), OwnStream(stream),
                event, flags)

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return WithContext([=] { return cuStreamGetPriority(stream, priority); });
}
MCCS_PER_THREAD(cudaStreamGetPriority, ptsz, (cudaStream_t stream, int* priority),
                OwnStream(stream), priority)

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return WithContext([=] { return cuStreamGetFlags(stream, flags); });
}
MCCS_PER_THREAD(cudaStreamGetFlags, ptsz, (cudaStream_t stream, unsigned int* flags),
                OwnStream(stream), flags)

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return WithContext([=] { return cuStreamGetId(stream, id); });
}
MCCS_PER_THREAD(cudaStreamGetId, ptsz, (cudaStream_t stream, unsigned long long* id),
                OwnStream(stream), id)

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return WithContext([=] { return cuStreamGetDevice(stream, device); });
}
MCCS_PER_THREAD(cudaStreamGetDevice, ptsz, (cudaStream_t stream, int* device), OwnStream(stream),
                device)

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return WithContext([=] {
    return cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status));
  });
}
MCCS_PER_THREAD(cudaStreamIsCapturing, ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                OwnStream(stream), status)

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  return cudaStreamIsCapturing(stream, status);
}
MCCS_PER_THREAD(cudaStreamGetCaptureInfo, ptsz,
                (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                 cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                 size_t* count),
                OwnStream(stream), status, id, graph, nodes, edges, count)

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return WithContext([=] { return cuLaunchHostFunc(stream, function, data); });
}
MCCS_PER_THREAD(cudaLaunchHostFunc, ptsz, (cudaStream_t stream, cudaHostFn_t function, void* data),
                OwnStream(stream), function, data)

// The runtime's callback takes the error as a cudaError_t, whose numbers are the driver's.
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  return WithContext([=] {
    return cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags);
  });
}
MCCS_PER_THREAD(cudaStreamAddCallback, ptsz,
                (cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                 unsigned int flags),
                OwnStream(stream), callback, data, flags)

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return WithContext([=] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return WithDriver([=] { return cuEventDestroy(event); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return WithContext([=] { return cuEventRecordWithFlags(event, stream, flags); });
}
MCCS_PER_THREAD(cudaEventRecordWithFlags, ptsz,
                (cudaEvent_t event, cudaStream_t stream, unsigned int flags), event,
                OwnStream(stream), flags)

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
MCCS_PER_THREAD(cudaEventRecord, ptsz, (cudaEvent_t event, cudaStream_t stream), event,
                OwnStream(stream))

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return WithDriver([=] { return cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return WithDriver([=] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return WithDriver([=] { return cuEventElapsedTime(milliseconds, start, end); });
}

}  // extern "C"
