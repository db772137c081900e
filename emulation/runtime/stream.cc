// Streams, events and host functions.

#include "emulation/runtime/entry.h"

namespace mccs::emulation {

extern "C" {

MCCS_CALL(cudaStreamCreateWithPriority, cuStreamCreateWithPriority(stream, flags, priority),
          cudaStream_t* stream, unsigned int flags, int priority)

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

MCCS_CALL(cudaStreamDestroy, cuStreamDestroy(stream), cudaStream_t stream)
MCCS_CALL(cudaEventCreateWithFlags, cuEventCreate(event, flags), cudaEvent_t* event,
          unsigned int flags)

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

MCCS_DRIVER_CALL(cudaEventDestroy, cuEventDestroy(event), cudaEvent_t event)
MCCS_DRIVER_CALL(cudaEventQuery, cuEventQuery(event), cudaEvent_t event)
MCCS_DRIVER_CALL(cudaEventSynchronize, cuEventSynchronize(event), cudaEvent_t event)
MCCS_DRIVER_CALL(cudaEventElapsedTime, cuEventElapsedTime(milliseconds, start, end),
                 float* milliseconds, cudaEvent_t start, cudaEvent_t end)

}  // extern "C"

MCCS_STREAM_CALL(cudaStreamSynchronize, cuStreamSynchronize(stream), cudaStream_t stream)
MCCS_STREAM_CALL(cudaStreamQuery, cuStreamQuery(stream), cudaStream_t stream)
MCCS_STREAM_CALL(cudaStreamWaitEvent, cuStreamWaitEvent(stream, event, flags), cudaStream_t stream,
                 cudaEvent_t event, unsigned int flags)
MCCS_STREAM_CALL(cudaStreamGetPriority, cuStreamGetPriority(stream, priority), cudaStream_t stream,
                 int* priority)
MCCS_STREAM_CALL(cudaStreamGetFlags, cuStreamGetFlags(stream, flags), cudaStream_t stream,
                 unsigned int* flags)
MCCS_STREAM_CALL(cudaStreamGetId, cuStreamGetId(stream, id), cudaStream_t stream,
                 unsigned long long* id)
MCCS_STREAM_CALL(cudaStreamGetDevice, cuStreamGetDevice(stream, device), cudaStream_t stream,
                 int* device)
MCCS_STREAM_CALL(cudaLaunchHostFunc, cuLaunchHostFunc(stream, function, data), cudaStream_t stream,
                 cudaHostFn_t function, void* data)
// The runtime's callback takes the error as a cudaError_t, which has the driver's numbers.
MCCS_STREAM_CALL(cudaStreamAddCallback,
                 cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data,
                                     flags),
                 cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int flags)
MCCS_STREAM_CALL(cudaEventRecordWithFlags, cuEventRecordWithFlags(event, stream, flags),
                 cudaEvent_t event, cudaStream_t stream, unsigned int flags)
MCCS_STREAM_CALL(cudaEventRecord, cuEventRecord(event, stream), cudaEvent_t event,
                 cudaStream_t stream)

}  // namespace mccs::emulation
