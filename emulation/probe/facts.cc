// Facts about the GPU and how processes share it. Their values are no failures: they say how to
// read the other outcomes.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

int AttributeOf(CUdevice_attribute attribute) {
  int value = -1;
  return cuDeviceGetAttribute(&value, attribute, 0) == CUDA_SUCCESS ? value : -1;
}

std::string MpsText() {
  const char* directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string control =
      std::string(directory == nullptr ? "/tmp/nvidia-mps" : directory) + "/control";
  const bool present = access(control.c_str(), F_OK) == 0;
  switch (AttributeOf(CU_DEVICE_ATTRIBUTE_MPS_ENABLED)) {
    case 1:
      return "MPS is active: kernels of several processes run at once, and a fault of one process "
             "can end the others";
    case 0:
      return "MPS is not active: processes share the GPU by time slices" +
             std::string(present ? ", although " + control + " exists" : "");
    default:
      return "MPS is unknown; " + control + (present ? " exists" : " does not exist");
  }
}

// NVML's functions, by name: the toolkit of the build has no nvml.h, and the machine may lack it.
std::string MigText() {
  cudaDeviceProp properties{};
  char address[32] = "";
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
      cudaDeviceGetPCIBusId(address, sizeof(address), 0) != cudaSuccess) {
    return "MIG is unknown: CUDA does not name the device";
  }
  if (std::string(properties.name).find("MIG") != std::string::npos) {
    return "MIG is active: this device is a slice of a GPU, without time slices from other slices";
  }
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return "MIG is unknown: there is no libnvidia-ml.so.1";
  auto* const start = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  auto* const find = reinterpret_cast<int (*)(const char*, void**)>(
      dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  auto* const get = reinterpret_cast<int (*)(void*, unsigned*, unsigned*)>(
      dlsym(library, "nvmlDeviceGetMigMode"));
  void* device = nullptr;
  unsigned mode = 0;
  unsigned pending = 0;
  if (start == nullptr || find == nullptr || get == nullptr) {
    return "MIG is unknown: this NVML does not report it";
  }
  if (start() != 0 || find(address, &device) != 0) return "MIG is unknown: NVML has no such device";
  constexpr int kNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED
  if (const int error = get(device, &mode, &pending); error != 0) {
    return error == kNotSupported ? "MIG is not supported by this GPU"
                                  : Text("MIG is unknown: NVML returned error %d", error);
  }
  return mode == 0 ? "MIG is off" : "MIG is on for this GPU";
}

std::string ModeText() {
  switch (AttributeOf(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)) {
    case CU_COMPUTEMODE_DEFAULT:
      return "compute mode default: several processes may use the GPU";
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
      return "compute mode exclusive: one process at a time, so checks with two processes fail";
    case CU_COMPUTEMODE_PROHIBITED:
      return "compute mode prohibited: no process may use the GPU";
    default:
      return "compute mode unknown";
  }
}

PROBE_CHECK(facts_of_sharing,
            "reports MPS, MIG and the compute mode; cannot fail by their values") {
  PROBE_CALL(cudaFree(nullptr));
  return Pass(MpsText() + "; " + MigText() + "; " + ModeText());
}

PROBE_CHECK(facts_of_device, "reports the GPU, the driver and the attributes of the data path") {
  struct Fact {
    const char* name;
    CUdevice_attribute attribute;
  };
  constexpr Fact kFacts[] = {
      {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {"copy engines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
      {"preemption", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
      {"same pointer for registered memory",
       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
      {"read-only registration", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
      {"atomics on host memory", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
      {"64-bit stream words", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
      {"dma-buf", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED},
      {"GPUDirect RDMA", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED},
      {"GPUDirect RDMA of virtual memory",
       CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED},
      {"order of remote writes", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING},
      {"fabric handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
      {"multicast", CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED},
  };
  cudaDeviceProp properties{};
  int devices = 0;
  int driver = 0;
  PROBE_CALL(cudaGetDeviceCount(&devices));
  PROBE_CALL(cudaGetDeviceProperties(&properties, 0));
  PROBE_CALL(cuDriverGetVersion(&driver));
  std::string text =
      Text("%d × %s, compute capability %d.%d, driver for CUDA %d.%d", devices, properties.name,
           properties.major, properties.minor, driver / 1000, driver % 1000 / 10);
  for (const Fact& fact : kFacts) {
    text += Text("; %s %d", fact.name, AttributeOf(fact.attribute));
  }
  return Pass(text);
}

}  // namespace
}  // namespace mccs::probe
