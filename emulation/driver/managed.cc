// Advice about managed memory. All managed memory is host memory, so advice is checked and has no
// effect; a prefetch only takes its place in the stream's order.

#include "emulation/driver/entry.h"

using mccs::emulation::CallContext;
using mccs::emulation::Join;
using mccs::emulation::OwnStream;
using mccs::emulation::Region;
using mccs::emulation::RegionKind;

// cuda.h maps these names to their newest version; this file defines each version by its own name.
#undef cuMemAdvise
#undef cuMemPrefetchAsync

namespace {

CUresult CheckManaged(const CallContext& session, CUdeviceptr address, size_t bytes) {
  const std::optional<Region> region = session.process->memory.Find(address);
  const bool good = region && region->kind == RegionKind::kManaged && bytes > 0 &&
                    region->Contains(address, bytes);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckLocation(const CallContext& session, const CUmemLocation& location) {
  const bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return !device || session.IsGpu(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUmemLocation LocationOf(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult Advise(CUdeviceptr address, size_t bytes, const CUmemLocation& location) {
  MCCS_ENTER_CONTEXT(session);
  const CUresult result = CheckManaged(session, address, bytes);
  return result == CUDA_SUCCESS ? CheckLocation(session, location) : result;
}

CUresult EnqueueNothing(const CallContext& session, CUstream handle) {
  const auto stream = session.FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto refused = RejectIfCapturing(session, *stream)) return *refused;
  session.process->engine.Enqueue(stream, Join{});
  return CUDA_SUCCESS;
}

CUresult Prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& location, unsigned flags,
                  CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CheckManaged(session, address, bytes);
  if (result == CUDA_SUCCESS) result = CheckLocation(session, location);
  return result == CUDA_SUCCESS ? EnqueueNothing(session, stream) : result;
}

CUresult Attach(CUstream stream, CUdeviceptr address, unsigned flags) {
  MCCS_ENTER_CONTEXT(session);
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
      flags != CU_MEM_ATTACH_SINGLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = CheckManaged(session, address, 1);
  return result == CUDA_SUCCESS ? EnqueueNothing(session, stream) : result;
}

}  // namespace

extern "C" {

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation location) {
  return Advise(address, bytes, location);
}
CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise, CUdevice device) {
  return Advise(address, bytes, LocationOf(device));
}

}  // extern "C"

MCCS_STREAM_CALL(cuMemPrefetchAsync_v2, Prefetch(address, bytes, location, flags, stream),
                 CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
                 CUstream stream)
MCCS_STREAM_CALL(cuMemPrefetchAsync, Prefetch(address, bytes, LocationOf(device), 0, stream),
                 CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
MCCS_STREAM_CALL(cuStreamAttachMemAsync, Attach(stream, address, flags), CUstream stream,
                 CUdeviceptr address, size_t, unsigned int flags)
