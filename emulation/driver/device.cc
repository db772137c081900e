// cuInit, versions and queries about GPUs.

#include <cstdio>
#include <cstring>

#include "emulation/driver/entry.h"

namespace mccs::emulation {

extern "C" {

CUresult cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return StartProcess();
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  MCCS_ENTER(session);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(session.process->gpus.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  MCCS_ENTER(session);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  MCCS_ENTER(session);
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, static_cast<size_t>(length), "%s", kGpuName);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  MCCS_ENTER(session);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  memcpy(uuid->bytes, session.process->gpus[device].uuid.data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  MCCS_ENTER(session);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = session.process->memory.account().capacity_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  MCCS_ENTER(session);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::optional<int> found = GpuAttribute(session.process->gpus[device], attribute);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  const bool dma_bufs = session.process->options.dma_bufs != 0;
  *value = attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED && !dma_bufs ? 0 : *found;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  MCCS_ENTER(session);
  if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(text, static_cast<size_t>(length), "%s",
           session.process->gpus[device].PciAddress().c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  MCCS_ENTER(session);
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<GpuIdentity>& gpus = session.process->gpus;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::string address = gpus[i].PciAddress();  // the domain and the function are optional
    if (address == text || address.substr(5) == text || address.substr(5, 5) == text) {
      *device = static_cast<CUdevice>(i);
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  MCCS_ENTER(session);
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device) || !session.IsGpu(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && session.process->peers.CanAccess(device, peer);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer) {
  MCCS_ENTER(session);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device) || !session.IsGpu(peer) || device == peer) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *value = session.process->peers.CanAccess(device, peer) &&
           (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
            attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace mccs::emulation
