// NVML: properties of an emulated GPU.

#include <cstdio>
#include <cstring>

#include "emulation/nvml/library.h"

namespace mccs::emulation {
namespace {

constexpr unsigned int kH100PciId = 0x233010de;  // device and vendor
constexpr unsigned int k3dController = 0x0302;   // PCI class and subclass

}  // namespace

// Defines a function that returns "not supported" for any arguments, as a GPU without NVLink and
// MIG does.
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

// PyTorch reports an error of its own if one of these is not exported.
MCCS_NVML_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
MCCS_NVML_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
MCCS_NVML_NOT_SUPPORTED(nvmlDeviceGetP2PStatus)

}  // extern "C"

}  // namespace mccs::emulation
