// Virtual memory management.

#include "emulation/driver/entry.h"

namespace mccs::emulation {
namespace {

bool IsGpu(const CallContext& session, const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && session.IsGpu(location.id);
}

// Accepts memory of a GPU, exportable as a descriptor or not at all. Host memory and other export
// types exist on some machines only.
CUresult Check(const CallContext& session, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!session.IsGpu(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  constexpr int kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return (properties->requestedHandleTypes & ~kKnown) == 0 ? CUDA_SUCCESS
                                                           : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  MCCS_ENTER(session);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Check(session, properties);
  if (result == CUDA_SUCCESS) *bytes = kGranularityBytes;
  return result;
}

// Allocators align to it even without multicast objects, which the emulation cannot create.
CUresult cuMulticastGetGranularity(size_t* bytes, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags) {
  MCCS_ENTER(session);
  if (bytes == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularityBytes;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  MCCS_ENTER(session);
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Check(session, properties);
  if (result != CUDA_SUCCESS) return result;
  return session.process->virtual_memory.Create(bytes, *properties, handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  MCCS_ENTER(session);
  return session.process->virtual_memory.Release(handle);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  MCCS_ENTER(session);
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.process->virtual_memory.GetProperties(handle, properties);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  MCCS_ENTER(session);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.process->virtual_memory.Retain(reinterpret_cast<uintptr_t>(address), handle);
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  MCCS_ENTER(session);
  if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t found = 0;
  const CUresult result = session.process->virtual_memory.Reserve(bytes, alignment, hint, &found);
  if (result == CUDA_SUCCESS) *address = found;
  return result;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  MCCS_ENTER(session);
  return session.process->virtual_memory.FreeReservation(address, bytes);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  MCCS_ENTER(session);
  if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return session.process->virtual_memory.Map(address, bytes, handle);
}

// Does not wait: the work that uses the mapping must be done before. Work that accesses the
// addresses afterwards terminates the process, as it terminates the context on a GPU.
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  MCCS_ENTER(session);
  return session.process->virtual_memory.Unmap(address, bytes);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  MCCS_ENTER(session);
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const bool known = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                       access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                       access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!known || !IsGpu(session, access[i].location)) return CUDA_ERROR_INVALID_VALUE;
  }
  return session.process->virtual_memory.SetAccess(address, bytes, {access, count});
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  MCCS_ENTER(session);
  if (flags == nullptr || location == nullptr || !IsGpu(session, *location)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const CUresult result = session.process->virtual_memory.GetAccess(address, location->id, &found);
  *flags = found;
  return result;
}

CUresult cuMemExportToShareableHandle(void* place, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  MCCS_ENTER(session);
  if (place == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return session.process->virtual_memory.Export(handle, static_cast<int*>(place));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* exported,
                                        CUmemAllocationHandleType type) {
  MCCS_ENTER(session);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(exported));
  return session.process->virtual_memory.Import(fd, handle);
}

}  // extern "C"

}  // namespace mccs::emulation
