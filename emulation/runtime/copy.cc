// Copies and fills.

#include "emulation/runtime/copy_descriptions.h"
#include "emulation/runtime/entry.h"

namespace mccs::emulation {
namespace {

CUresult CopyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUstream stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoDAsync(Pointer(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoHAsync(to, Pointer(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoDAsync(Pointer(to), Pointer(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return cuMemcpyAsync(Pointer(to), Pointer(from), bytes, stream);
  }
  return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
}

CUresult CopySync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoD(Pointer(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoH(to, Pointer(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoD(Pointer(to), Pointer(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return cuMemcpy(Pointer(to), Pointer(from), bytes);
  }
  return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
}

// Converts a two-dimensional copy to the driver's form; the copy kind determines both ends' memory
// types.
CUDA_MEMCPY2D Plane(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy{};
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  copy.srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = Pointer(to);
  copy.srcDevice = Pointer(from);
  copy.dstPitch = to_pitch;
  copy.srcPitch = from_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

}  // namespace

extern "C" {

MCCS_CALL(cudaMemcpy, CopySync(to, from, bytes, kind), void* to, const void* from, size_t bytes,
          cudaMemcpyKind kind)

// The per-thread variants of synchronous functions use the thread's own stream and wait for it.
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return WithContext([=] {
    const CUresult result = CopyAsync(to, from, bytes, kind, CU_STREAM_PER_THREAD);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
  });
}

MCCS_STREAM_CALL(cudaMemcpyAsync, CopyAsync(to, from, bytes, kind, stream), void* to,
                 const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
MCCS_CALL(cudaMemcpyPeer, cuMemcpyDtoD(Pointer(to), Pointer(from), bytes), void* to, int,
          const void* from, int, size_t bytes)
MCCS_CALL(cudaMemcpyPeerAsync, cuMemcpyDtoDAsync(Pointer(to), Pointer(from), bytes, stream),
          void* to, int, const void* from, int, size_t bytes, cudaStream_t stream)

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return WithContext([=] {
    const CUDA_MEMCPY2D copy = Plane(to, to_pitch, from, from_pitch, width, height, kind);
    return cuMemcpy2D(&copy);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return WithContext([=] {
    const CUDA_MEMCPY2D copy = Plane(to, to_pitch, from, from_pitch, width, height, kind);
    return cuMemcpy2DAsync(&copy, stream);
  });
}
MCCS_PER_THREAD(cudaMemcpy2DAsync, ptsz,
                (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                 size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                to, to_pitch, from, from_pitch, width, height, kind, OwnStream(stream))

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* params) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  if (params->srcArray != nullptr || params->dstArray != nullptr) {
    return Report(cudaErrorNotSupported);
  }
  return WithContext([=] {
    const CUDA_MEMCPY3D copy = CopyOf(*params);
    return cuMemcpy3D(&copy);
  });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* params, cudaStream_t stream) {
  if (params == nullptr) return Report(cudaErrorInvalidValue);
  if (params->srcArray != nullptr || params->dstArray != nullptr) {
    return Report(cudaErrorNotSupported);
  }
  return WithContext([=] {
    const CUDA_MEMCPY3D copy = CopyOf(*params);
    return cuMemcpy3DAsync(&copy, stream);
  });
}
MCCS_PER_THREAD(cudaMemcpy3DAsync, ptsz, (const cudaMemcpy3DParms* params, cudaStream_t stream),
                params, OwnStream(stream))

MCCS_CALL(cudaMemset, cuMemsetD8(Pointer(to), static_cast<unsigned char>(value), bytes), void* to,
          int value, size_t bytes)
MCCS_STREAM_CALL(cudaMemsetAsync,
                 cuMemsetD8Async(Pointer(to), static_cast<unsigned char>(value), bytes, stream),
                 void* to, int value, size_t bytes, cudaStream_t stream)

cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, cudaStreamPerThread);
}

MCCS_CALL(cudaMemset2D,
          cuMemsetD2D8(Pointer(to), pitch, static_cast<unsigned char>(value), width, height),
          void* to, size_t pitch, int value, size_t width, size_t height)
MCCS_STREAM_CALL(cudaMemset2DAsync,
                 cuMemsetD2D8Async(Pointer(to), pitch, static_cast<unsigned char>(value), width,
                                   height, stream),
                 void* to, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t stream)

}  // extern "C"

}  // namespace mccs::emulation
