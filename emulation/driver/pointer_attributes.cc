// Attributes of pointers.

#include "emulation/driver/entry.h"

namespace mccs::emulation {
namespace {

template <typename Value>
CUresult Answer(void* data, Value value) {
  *static_cast<Value*>(data) = value;
  return CUDA_SUCCESS;
}

CUmemorytype MemoryType(const Region& region) {
  const bool host = region.kind == RegionKind::kHost || region.kind == RegionKind::kRegistered;
  return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

// Reads one attribute of a pointer into `region`.
CUresult Attribute(const CallContext& session, const Region& region, CUdeviceptr pointer,
                   CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Answer(data, session.ContextOf(region.gpu));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Answer(data, MemoryType(region));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Answer(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (region.IsDeviceMemory()) return CUDA_ERROR_INVALID_VALUE;
      return Answer(data, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Answer(data, static_cast<unsigned long long>(region.buffer_id));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Answer(data, 0u);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Answer(data, static_cast<unsigned>(region.kind == RegionKind::kManaged));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Answer(data, region.gpu);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Answer(data, static_cast<unsigned>(region.kind == RegionKind::kDevice));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Answer(data, static_cast<CUdeviceptr>(region.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Answer(data, region.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Answer(data, 1u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Answer(data, region.handle_types);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Answer(data, 0u);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Answer(data, session.process->pools.PoolOf(region.base));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Answer(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// cuPointerGetAttributes returns zeros for a pointer that CUDA does not know. 0 is not a valid
// memory type. It is a valid device ordinal, so the ordinal is -2.
void ReturnUnknown(CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      Answer(data, 0u);
      return;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Answer(data, -2);
      return;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return;
    default:
      Answer(data, static_cast<uint64_t>(0));
  }
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  MCCS_ENTER_CONTEXT(session);
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Region> region = session.process->memory.Find(pointer);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  return Attribute(session, *region, pointer, attribute, data);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr pointer) {
  MCCS_ENTER_CONTEXT(session);
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Region> region = session.process->memory.Find(pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!region || Attribute(session, *region, pointer, attributes[i], data[i]) != CUDA_SUCCESS) {
      ReturnUnknown(attributes[i], data[i]);
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  MCCS_ENTER_CONTEXT(session);
  if (value == nullptr || !session.process->memory.Find(pointer)) return CUDA_ERROR_INVALID_VALUE;
  // Accepted without effect: the emulation's copies are complete when their stream reports it.
  return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"

}  // namespace mccs::emulation
