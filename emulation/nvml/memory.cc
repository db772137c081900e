// NVML: the memory of an emulated GPU that this process uses.

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "emulation/nvml/library.h"

namespace mccs::emulation {
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
