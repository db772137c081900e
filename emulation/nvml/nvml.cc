// NVML for emulated GPUs: initialization, shutdown, versions and handles.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "emulation/core/options.h"
#include "emulation/nvml/library.h"

namespace mccs::emulation {
namespace {

// The driver branch of CUDA 13.0. NVIDIA has no release with this number.
constexpr char kDriverVersion[] = "580.0";
constexpr char kNvmlVersion[] = "13.580.0";

struct ErrorText {
  nvmlReturn_t code;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {NVML_SUCCESS, "Success"},
    {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {NVML_ERROR_NOT_FOUND, "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
};

template <typename Matches>
nvmlReturn_t FindHandle(nvmlDevice_t* device, Matches matches) {
  const std::vector<GpuIdentity>& gpus = TheNvmlLibrary().gpus;
  const auto found = std::find_if(gpus.begin(), gpus.end(), matches);
  if (found == gpus.end()) return NVML_ERROR_NOT_FOUND;
  *device = HandleOf(*found);
  return NVML_SUCCESS;
}

}  // namespace

NvmlLibrary& TheNvmlLibrary() {
  static auto* const library = new NvmlLibrary;
  return *library;
}

bool IsNvmlInitialized() {
  const std::lock_guard lock(TheNvmlLibrary().mutex);
  return TheNvmlLibrary().users > 0;
}

nvmlDevice_t HandleOf(const GpuIdentity& gpu) {
  return reinterpret_cast<nvmlDevice_t>(const_cast<GpuIdentity*>(&gpu));
}

const GpuIdentity* FindGpu(nvmlDevice_t device) {
  for (const GpuIdentity& gpu : TheNvmlLibrary().gpus) {
    if (HandleOf(gpu) == device) return &gpu;
  }
  return nullptr;
}

nvmlReturn_t CopyText(const std::string& text, char* to, unsigned int length) {
  if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (length <= text.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

extern "C" {

nvmlReturn_t nvmlInitWithFlags(unsigned int) {
  NvmlLibrary& library = TheNvmlLibrary();
  const std::lock_guard lock(library.mutex);
  if (library.users == 0 && library.gpus.empty()) {
    std::optional<Options> options = ReadOptions();
    if (!options) return NVML_ERROR_DRIVER_NOT_LOADED;
    for (int i = 0; i < options->gpus; ++i) {
      library.gpus.push_back(IdentifyGpu(options->host, i));
    }
    library.memory_bytes = options->memory_bytes;
    library.peers = options->peers;
    library.state = options->nvml;
    while (library.state.hangs) pause();
  }
  ++library.users;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
MCCS_NVML_ALIAS(nvmlInit, nvmlInit_v2);

nvmlReturn_t nvmlShutdown(void) {
  NvmlLibrary& library = TheNvmlLibrary();
  const std::lock_guard lock(library.mutex);
  if (library.users == 0) return NVML_ERROR_UNINITIALIZED;
  --library.users;
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  for (const ErrorText& error : kErrors) {
    if (error.code == result) return error.text;
  }
  return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  MCCS_NVML_ENTER();
  return CopyText(kDriverVersion, version, length);
}

// These two work before nvmlInit.
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return CopyText(kNvmlVersion, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = kCudaVersion;
  return NVML_SUCCESS;
}
MCCS_NVML_ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  MCCS_NVML_ENTER();
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned int>(TheNvmlLibrary().gpus.size());
  return NVML_SUCCESS;
}
MCCS_NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  MCCS_NVML_ENTER();
  if (device == nullptr || index >= TheNvmlLibrary().gpus.size())
    return NVML_ERROR_INVALID_ARGUMENT;
  *device = HandleOf(TheNvmlLibrary().gpus[index]);
  return NVML_SUCCESS;
}
MCCS_NVML_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

// Accepts the UUID without "GPU-", as cuda.core passes it.
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  MCCS_NVML_ENTER();
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return FindHandle(device, [&](const GpuIdentity& gpu) {
    const std::string text = gpu.UuidText();
    return text == uuid || text == std::string("GPU-") + uuid;
  });
}

// Accepts a domain of any width; the domain and the function are optional.
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  MCCS_NVML_ENTER();
  if (bus_id == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int domain = 0, bus = 0, slot = 0;
  if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (sscanf(bus_id, "%x:%x", &bus, &slot) != 2) return NVML_ERROR_INVALID_ARGUMENT;
  }
  return FindHandle(device, [&](const GpuIdentity& gpu) {
    return static_cast<unsigned int>(gpu.pci_domain) == domain &&
           static_cast<unsigned int>(gpu.pci_bus) == bus && slot == 0;
  });
}
MCCS_NVML_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

}  // extern "C"

}  // namespace mccs::emulation
