#include "service/gpus/nvml_survey.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

// NVIDIA's reference of NVML. The toolkit of the build may have no nvml.h.
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr unsigned kTextBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, the longest of them
constexpr unsigned kMostGpus = 64;

struct NvmlDeviceStruct;
using Device = NvmlDeviceStruct*;

struct PciInfo {
  char bus_id_legacy[16];  // "0000:1b:00.0"
  unsigned numbers[5];
  char bus_id[32];  // "00000000:1B:00.0"
};
static_assert(sizeof(PciInfo) == 68);

enum P2PCapability : unsigned { kRead = 0, kWrite = 1 };

// Null: this NVML does not have the function.
struct Functions {
  int (*Init)();
  int (*Shutdown)();
  const char* (*ErrorString)(int);
  int (*SystemGetDriverVersion)(char*, unsigned);
  int (*SystemGetCudaDriverVersion)(int*);
  int (*DeviceGetCount)(unsigned*);
  int (*DeviceGetHandleByIndex)(unsigned, Device*);
  int (*DeviceGetName)(Device, char*, unsigned);
  int (*DeviceGetPciInfo)(Device, PciInfo*);
  int (*DeviceGetCudaComputeCapability)(Device, int*, int*);
  int (*DeviceGetComputeMode)(Device, int*);
  int (*DeviceGetMigMode)(Device, unsigned*, unsigned*);
  int (*DeviceGetP2PStatus)(Device, Device, unsigned, int*);
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

Functions FindFunctions(void* library) {
  Functions nvml;
  Find(library, "nvmlInit_v2", &nvml.Init);
  Find(library, "nvmlShutdown", &nvml.Shutdown);
  Find(library, "nvmlErrorString", &nvml.ErrorString);
  Find(library, "nvmlSystemGetDriverVersion", &nvml.SystemGetDriverVersion);
  Find(library, "nvmlSystemGetCudaDriverVersion_v2", &nvml.SystemGetCudaDriverVersion);
  Find(library, "nvmlDeviceGetCount_v2", &nvml.DeviceGetCount);
  Find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.DeviceGetHandleByIndex);
  Find(library, "nvmlDeviceGetName", &nvml.DeviceGetName);
  Find(library, "nvmlDeviceGetPciInfo_v3", &nvml.DeviceGetPciInfo);
  Find(library, "nvmlDeviceGetCudaComputeCapability", &nvml.DeviceGetCudaComputeCapability);
  Find(library, "nvmlDeviceGetComputeMode", &nvml.DeviceGetComputeMode);
  Find(library, "nvmlDeviceGetMigMode", &nvml.DeviceGetMigMode);
  Find(library, "nvmlDeviceGetP2PStatus", &nvml.DeviceGetP2PStatus);
  return nvml;
}

std::string ErrorText(const Functions& nvml, int error) {
  const char* const text = nvml.ErrorString != nullptr ? nvml.ErrorString(error) : nullptr;
  return text != nullptr ? text : absl::StrCat("NVML error ", error);
}

std::string ComputeModeText(int mode) {
  constexpr const char* kModes[] = {"default", "exclusive_thread", "prohibited",
                                    "exclusive_process"};
  return mode >= 0 && mode < 4 ? kModes[mode] : absl::StrCat("mode ", mode);
}

std::string P2PStatusText(int status) {
  constexpr const char* kStatuses[] = {"",
                                       "the chipset does not support it",
                                       "a GPU does not support it",
                                       "the PCIe topology does not support it",
                                       "disabled by a registry key of the driver",
                                       "not supported"};
  return status > 0 && status < 6 ? kStatuses[status] : "the driver does not know";
}

// As CUDA writes it: "0000:1b:00.0". NVML's form has a domain of eight digits and capitals.
std::string BusId(const PciInfo& pci) {
  std::string text(pci.bus_id, strnlen(pci.bus_id, sizeof(pci.bus_id)));
  constexpr size_t kDomainDigits = 8;
  if (text.find(':') == kDomainDigits && text.starts_with("0000")) text.erase(0, 4);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void ReadGpu(const Functions& nvml, Device device, agent::v1::GpuCondition* gpu) {
  char name[kTextBytes] = "";
  if (nvml.DeviceGetName != nullptr && nvml.DeviceGetName(device, name, sizeof(name)) == kSuccess)
    gpu->set_name(name);
  PciInfo pci = {};
  if (nvml.DeviceGetPciInfo != nullptr && nvml.DeviceGetPciInfo(device, &pci) == kSuccess)
    gpu->set_bus_id(BusId(pci));
  int major = 0, minor = 0;
  if (nvml.DeviceGetCudaComputeCapability != nullptr &&
      nvml.DeviceGetCudaComputeCapability(device, &major, &minor) == kSuccess) {
    gpu->set_compute_capability(10 * major + minor);
  }
  int mode = 0;
  if (nvml.DeviceGetComputeMode != nullptr &&
      nvml.DeviceGetComputeMode(device, &mode) == kSuccess) {
    gpu->set_compute_mode(ComputeModeText(mode));
  }
  unsigned mig = 0, pending = 0;
  if (nvml.DeviceGetMigMode != nullptr &&
      nvml.DeviceGetMigMode(device, &mig, &pending) == kSuccess) {
    gpu->set_mig(mig != 0 ? "on" : "off");
  }
}

// `devices`: by index; null for those that cannot be read.
void ReadPeerAccess(const Functions& nvml, const std::vector<Device>& devices,
                    agent::v1::GpuSurvey* survey) {
  if (nvml.DeviceGetP2PStatus == nullptr) return;
  for (size_t one = 0; one < devices.size(); ++one) {
    for (size_t other = one + 1; other < devices.size(); ++other) {
      if (devices[one] == nullptr || devices[other] == nullptr) continue;
      for (const P2PCapability capability : {kRead, kWrite}) {
        int status = 0;
        const int error =
            nvml.DeviceGetP2PStatus(devices[one], devices[other], capability, &status);
        if (error == kNotSupported) return;  // GPUs without any such capability, such as MIG's
        if (error != kSuccess || status == 0) continue;
        agent::v1::GpuPair* pair = survey->add_without_access();
        pair->set_one(static_cast<int32_t>(one));
        pair->set_other(static_cast<int32_t>(other));
        pair->set_cause(P2PStatusText(status));
        break;
      }
    }
  }
}

void ReadAll(const Functions& nvml, agent::v1::GpuSurvey* survey) {
  char version[kTextBytes] = "";
  if (nvml.SystemGetDriverVersion != nullptr &&
      nvml.SystemGetDriverVersion(version, sizeof(version)) == kSuccess) {
    survey->set_driver_version(version);
  }
  int cuda = 0;
  if (nvml.SystemGetCudaDriverVersion != nullptr &&
      nvml.SystemGetCudaDriverVersion(&cuda) == kSuccess) {
    survey->set_cuda_version(cuda);
  }
  unsigned count = 0;
  if (const int error = nvml.DeviceGetCount(&count); error != kSuccess) {
    survey->set_unreadable(absl::StrCat("nvmlDeviceGetCount failed: ", ErrorText(nvml, error)));
    return;
  }
  std::vector<Device> devices(std::min(count, kMostGpus));
  for (unsigned i = 0; i < devices.size(); ++i) {
    agent::v1::GpuCondition* const gpu = survey->add_gpus();
    gpu->set_index(static_cast<int32_t>(i));
    if (const int error = nvml.DeviceGetHandleByIndex(i, &devices[i]); error != kSuccess) {
      devices[i] = nullptr;
      gpu->set_error(ErrorText(nvml, error));
      continue;
    }
    ReadGpu(nvml, devices[i], gpu);
  }
  ReadPeerAccess(nvml, devices, survey);
}

}  // namespace

agent::v1::GpuSurvey SurveyByNvml(const char* path) {
  agent::v1::GpuSurvey survey;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // for good
  if (library == nullptr) {
    const char* const why = dlerror();
    survey.set_unreadable(absl::StrCat("no NVIDIA driver: ", why != nullptr ? why : path));
    return survey;
  }
  const Functions nvml = FindFunctions(library);
  if (nvml.Init == nullptr || nvml.DeviceGetCount == nullptr ||
      nvml.DeviceGetHandleByIndex == nullptr) {
    survey.set_unreadable(absl::StrCat(path, " lacks functions of NVML"));
    return survey;
  }
  if (const int error = nvml.Init(); error != kSuccess) {
    survey.set_unreadable(absl::StrCat("nvmlInit failed: ", ErrorText(nvml, error)));
    return survey;
  }
  ReadAll(nvml, &survey);
  if (nvml.Shutdown != nullptr) nvml.Shutdown();
  return survey;
}

}  // namespace mccs
