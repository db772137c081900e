// Converts copies in three dimensions between the runtime's and the driver's form.
#ifndef MCCS_EMULATION_RUNTIME_COPY_DESCRIPTIONS_H_
#define MCCS_EMULATION_RUNTIME_COPY_DESCRIPTIONS_H_

#include "emulation/runtime/entry.h"

namespace mccs::emulation {

// REQUIRES: no arrays. The copy kind determines both ends' memory types.
inline CUDA_MEMCPY3D CopyOf(const cudaMemcpy3DParms& params) {
  const cudaMemcpyKind kind = params.kind;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = Pointer(params.srcPtr.ptr);
  copy.srcPitch = params.srcPtr.pitch;
  copy.srcHeight = params.srcPtr.ysize;
  copy.srcXInBytes = params.srcPos.x;
  copy.srcY = params.srcPos.y;
  copy.srcZ = params.srcPos.z;
  copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = Pointer(params.dstPtr.ptr);
  copy.dstPitch = params.dstPtr.pitch;
  copy.dstHeight = params.dstPtr.ysize;
  copy.dstXInBytes = params.dstPos.x;
  copy.dstY = params.dstPos.y;
  copy.dstZ = params.dstPos.z;
  copy.WidthInBytes = params.extent.width;
  copy.Height = params.extent.height;
  copy.Depth = params.extent.depth;
  return copy;
}

inline cudaMemcpy3DParms DescribeCopy(const CUDA_MEMCPY3D& copy) {
  cudaMemcpy3DParms params{};
  params.srcPtr = {reinterpret_cast<void*>(copy.srcDevice), copy.srcPitch, copy.WidthInBytes,
                   copy.Height};
  params.dstPtr = {reinterpret_cast<void*>(copy.dstDevice), copy.dstPitch, copy.WidthInBytes,
                   copy.Height};
  params.extent = {copy.WidthInBytes, copy.Height, copy.Depth};
  params.kind = cudaMemcpyDefault;
  return params;
}

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_RUNTIME_COPY_DESCRIPTIONS_H_
