// NVML: properties of an emulated GPU, and its memory that this process uses.

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "emulation/nvml/library.h"

namespace mccs::emulation {
namespace {

constexpr unsigned int kH100PciId = 0x233010de;  // device and vendor
constexpr unsigned int k3dController = 0x0302;   // PCI class and subclass

}  // namespace

// Defines a function that returns "not supported" for any arguments, as a GPU without NVLink
// does.
#define MCCS_NVML_NOT_SUPPORTED(name) \
  nvmlReturn_t name(void) {           \
    MCCS_NVML_ENTER();                \
    return NVML_ERROR_NOT_SUPPORTED;  \
  }

extern "C" {

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  MCCS_NVML_ENTER_GPU(gpu);
  if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned int>(gpu->physical);
  return NVML_SUCCESS;
}
MCCS_NVML_ALIAS(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex);

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  MCCS_NVML_ENTER();
  if (FindGpu(device) == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return CopyText(kGpuName, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  MCCS_NVML_ENTER_GPU(gpu);
  return CopyText(gpu->UuidText(), uuid, length);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  MCCS_NVML_ENTER_GPU(gpu);
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *pci = {};
  pci->domain = static_cast<unsigned int>(gpu->pci_domain);
  pci->bus = static_cast<unsigned int>(gpu->pci_bus);
  pci->pciDeviceId = kH100PciId;
  snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%s", gpu->PciAddress().c_str());
  snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:00.0", pci->domain, pci->bus);
  return NVML_SUCCESS;
}
MCCS_NVML_ALIAS(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3);

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t* pci) {
  MCCS_NVML_ENTER();
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (pci->version != kNvmlPciInfoExtVersion1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlPciInfo_t info;
  if (const nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &info); result != NVML_SUCCESS) {
    return result;
  }
  *pci = {.version = pci->version,
          .domain = info.domain,
          .bus = info.bus,
          .device = info.device,
          .pciDeviceId = info.pciDeviceId,
          .pciSubSystemId = info.pciSubSystemId,
          .baseClass = k3dController >> 8,
          .subClass = k3dController & 0xff,
          .busId = {}};
  memcpy(pci->busId, info.busId, sizeof(pci->busId));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  MCCS_NVML_ENTER_GPU(gpu);
  if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = *GpuAttribute(*gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = *GpuAttribute(*gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int* architecture) {
  MCCS_NVML_ENTER();
  if (FindGpu(device) == nullptr || architecture == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *architecture = kNvmlArchitectureHopper;
  return NVML_SUCCESS;
}

// Returns zeros for all fields except the version, whose low bytes are the size of the caller's
// structure: the GPU belongs to no fabric.
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, unsigned int* version) {
  MCCS_NVML_ENTER();
  if (FindGpu(device) == nullptr || version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (*version != kNvmlGpuFabricInfoVersion2 && *version != kNvmlGpuFabricInfoVersion3) {
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  }
  constexpr unsigned int kSizeBits = 0xffffff;
  memset(version + 1, 0, (*version & kSizeBits) - sizeof(*version));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  MCCS_NVML_ENTER();
  if (FindGpu(device) == nullptr || mode == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *mode = static_cast<nvmlComputeMode_t>(TheNvmlLibrary().state.compute_mode);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  MCCS_NVML_ENTER_GPU(gpu);
  if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const bool mig = TheNvmlLibrary().state.HasMig(gpu->physical);
  *current = *pending = mig ? kNvmlMigEnabled : kNvmlMigDisabled;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other,
                                    nvmlGpuP2PCapsIndex_t capability, nvmlGpuP2PStatus_t* status) {
  MCCS_NVML_ENTER_GPU(gpu);
  const GpuIdentity* const peer = FindGpu(other);
  if (peer == nullptr || status == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (capability == NVML_P2P_CAPS_INDEX_NVLINK) return NVML_ERROR_NOT_SUPPORTED;
  *status = TheNvmlLibrary().peers.Reaches(gpu->physical, peer->physical)
                ? NVML_P2P_STATUS_OK
                : NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

// PyTorch reports an error of its own if one of these is not exported.
MCCS_NVML_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
MCCS_NVML_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)

}  // extern "C"

// ---- Memory ------------------------------------------------------------------------------------

namespace {

// Returns the CUDA device for `gpu`, or empty if CUDA is not initialized or does not see the GPU.
std::optional<CUdevice> CudaDevice(const GpuIdentity& gpu) {
  int count = 0;
  if (cuDeviceGetCount(&count) != CUDA_SUCCESS) return std::nullopt;
  for (CUdevice device = 0; device < count; ++device) {
    CUuuid uuid;
    if (cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS) continue;
    if (memcmp(uuid.bytes, gpu.uuid.data(), gpu.uuid.size()) == 0) return device;
  }
  return std::nullopt;
}

// Returns the bytes that this process has allocated on `gpu`, or empty if it has not used the GPU.
std::optional<uint64_t> UsedBytes(const GpuIdentity& gpu) {
  const std::optional<CUdevice> device = CudaDevice(gpu);
  unsigned int flags = 0;
  int active = 0;
  if (!device || cuDevicePrimaryCtxGetState(*device, &flags, &active) != CUDA_SUCCESS ||
      active == 0) {
    return std::nullopt;
  }
  CUcontext context = nullptr;
  if (cuDevicePrimaryCtxRetain(&context, *device) != CUDA_SUCCESS) return std::nullopt;
  size_t free_bytes = 0, total = 0;
  if (cuCtxPushCurrent(context) == CUDA_SUCCESS) {
    cuMemGetInfo(&free_bytes, &total);
    cuCtxPopCurrent(nullptr);
  }
  cuDevicePrimaryCtxRelease(*device);
  return total - free_bytes;
}

// Lists this process, if it has used the GPU, in the form that `make` returns.
template <typename Info, typename Make>
nvmlReturn_t ListProcesses(nvmlDevice_t device, unsigned int* count, Info* processes, Make make) {
  MCCS_NVML_ENTER_GPU(gpu);
  if (count == nullptr || (processes == nullptr && *count != 0)) return NVML_ERROR_INVALID_ARGUMENT;
  const std::optional<uint64_t> used = UsedBytes(*gpu);
  const unsigned int room = *count;
  *count = used ? 1 : 0;
  if (room < *count) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (used) *processes = make(static_cast<unsigned int>(getpid()), *used);
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  MCCS_NVML_ENTER_GPU(gpu);
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const uint64_t total = TheNvmlLibrary().memory_bytes;
  const uint64_t used = std::min(total, UsedBytes(*gpu).value_or(0));
  *memory = {.total = total, .free = total - used, .used = used};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  MCCS_NVML_ENTER();
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != kNvmlMemoryVersion2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t info;
  if (const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &info); result != NVML_SUCCESS) {
    return result;
  }
  memory->total = info.total;
  memory->reserved = 0;
  memory->free = info.free;
  memory->used = info.used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* processes) {
  return ListProcesses(device, count, processes, [](unsigned int pid, uint64_t used) {
    return nvmlProcessInfo_v1_t{.pid = pid, .usedGpuMemory = used};
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* processes) {
  return ListProcesses(device, count, processes, [](unsigned int pid, uint64_t used) {
    return nvmlProcessInfo_t{.pid = pid,
                             .usedGpuMemory = used,
                             .gpuInstanceId = kNvmlNoInstance,
                             .computeInstanceId = kNvmlNoInstance};
  });
}
MCCS_NVML_ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

}  // extern "C"

}  // namespace mccs::emulation
