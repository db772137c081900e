// The emulated NVML library, with the emulated driver in one process.

#include <cuda.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "emulation/core/gpu.h"
#include "emulation/nvml/nvml_api.h"

namespace mccs::emulation {
namespace nvml_test {

constexpr unsigned int kGpus = 3;
constexpr uint64_t kMemoryBytes = 1ull << 30;

// The environment is read once per process, so all tests share this one. CUDA sees only GPU 2.
class Nvml : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("MCCS_EMULATED_HOST", "h0", 1);
    setenv("MCCS_EMULATED_GPUS", "3", 1);
    setenv("MCCS_EMULATED_MEMORY", "1G", 1);
    setenv("CUDA_VISIBLE_DEVICES", "2", 1);
  }
  void SetUp() override { ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS); }
  void TearDown() override { EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS); }

  static nvmlDevice_t Gpu(unsigned int index) {
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
  }
  static unsigned int IndexOf(nvmlDevice_t device) {
    unsigned int index = kGpus;
    EXPECT_EQ(nvmlDeviceGetIndex(device, &index), NVML_SUCCESS);
    return index;
  }
};

// First, because the later tests initialize CUDA.
TEST_F(Nvml, WorksWithoutInitializingCuda) {
  nvmlMemory_t memory;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(Gpu(2), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, kMemoryBytes);
  EXPECT_EQ(memory.free, kMemoryBytes);
  EXPECT_EQ(memory.used, 0u);
  unsigned int processes = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses(Gpu(2), &processes, nullptr), NVML_SUCCESS);
  EXPECT_EQ(processes, 0u);
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

TEST_F(Nvml, CountsAllGpusOfTheHost) {
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, kGpus);
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  int visible = 0;
  EXPECT_EQ(cuDeviceGetCount(&visible), CUDA_SUCCESS);
  EXPECT_EQ(visible, 1);
}

TEST_F(Nvml, FindsAGpuByIndexUuidAndPciAddress) {
  for (unsigned int index = 0; index < kGpus; ++index) {
    const GpuIdentity gpu = IdentifyGpu("h0", static_cast<int>(index));
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(IndexOf(Gpu(index)), index);
    EXPECT_EQ(nvmlDeviceGetHandleByUUID(gpu.UuidText().c_str(), &device), NVML_SUCCESS);
    EXPECT_EQ(IndexOf(device), index);
    const std::string without_prefix = gpu.UuidText().substr(strlen("GPU-"));
    EXPECT_EQ(nvmlDeviceGetHandleByUUID(without_prefix.c_str(), &device), NVML_SUCCESS);
    EXPECT_EQ(IndexOf(device), index);
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(gpu.PciAddress().c_str(), &device), NVML_SUCCESS);
    EXPECT_EQ(IndexOf(device), index);
    nvmlPciInfo_t pci;
    EXPECT_EQ(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
    EXPECT_EQ(pci.busIdLegacy, gpu.PciAddress());
    EXPECT_EQ(pci.busId, "0000" + gpu.PciAddress());
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &device), NVML_SUCCESS);
    EXPECT_EQ(IndexOf(device), index);
    nvmlPciInfoExt_v1_t extended{};
    extended.version = kNvmlPciInfoExtVersion1;
    EXPECT_EQ(nvmlDeviceGetPciInfoExt(device, &extended), NVML_SUCCESS);
    EXPECT_STREQ(extended.busId, pci.busId);
    EXPECT_EQ(extended.bus, pci.bus);
    char uuid[96];
    EXPECT_EQ(nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), NVML_SUCCESS);
    EXPECT_EQ(uuid, gpu.UuidText());
  }
}

TEST_F(Nvml, ReportsTheDriversPropertiesOfAGpu) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  char name[96], cuda_name[96];
  EXPECT_EQ(nvmlDeviceGetName(Gpu(2), name, sizeof(name)), NVML_SUCCESS);
  EXPECT_EQ(cuDeviceGetName(cuda_name, sizeof(cuda_name), 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, cuda_name);
  int major = 0, minor = -1, version = 0, cuda_version = -1;
  EXPECT_EQ(nvmlDeviceGetCudaComputeCapability(Gpu(2), &major, &minor), NVML_SUCCESS);
  EXPECT_EQ(major, 9);
  EXPECT_EQ(minor, 0);
  EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
  EXPECT_EQ(cuDriverGetVersion(&cuda_version), CUDA_SUCCESS);
  EXPECT_EQ(version, cuda_version);
}

TEST_F(Nvml, ReportsTheMemoryThatThisProcessHasAllocated) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  constexpr size_t kBytes = 64 << 20;
  ASSERT_EQ(cuMemAlloc(&address, kBytes), CUDA_SUCCESS);

  nvmlMemory_v2_t memory{};
  memory.version = kNvmlMemoryVersion2;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(Gpu(2), &memory), NVML_SUCCESS);
  size_t free_bytes = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
  EXPECT_EQ(memory.free, free_bytes);
  EXPECT_EQ(memory.total, total);
  EXPECT_GE(memory.used, kBytes);
  nvmlMemory_t unused;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(Gpu(0), &unused), NVML_SUCCESS);
  EXPECT_EQ(unused.used, 0u);

  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses(Gpu(2), &count, nullptr),
            NVML_ERROR_INSUFFICIENT_SIZE);
  nvmlProcessInfo_v1_t process{};
  count = 1;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses(Gpu(2), &count, &process), NVML_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(process.pid, static_cast<unsigned int>(getpid()));
  EXPECT_EQ(process.usedGpuMemory, memory.used);
  nvmlProcessInfo_t extended{};
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(Gpu(2), &count, &extended), NVML_SUCCESS);
  EXPECT_EQ(extended.pid, process.pid);
  EXPECT_EQ(extended.usedGpuMemory, memory.used);
  EXPECT_EQ(extended.gpuInstanceId, kNvmlNoInstance);

  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

TEST_F(Nvml, RejectsUnknownGpusAndShortBuffers) {
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(kGpus, &device), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-none", &device), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:7f:00.0", &device), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("here", &device), NVML_ERROR_INVALID_ARGUMENT);
  char name[4];
  EXPECT_EQ(nvmlDeviceGetName(Gpu(0), name, sizeof(name)), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(nvmlDeviceGetName(reinterpret_cast<nvmlDevice_t>(name), name, sizeof(name)),
            NVML_ERROR_INVALID_ARGUMENT);
  nvmlMemory_v2_t memory{};
  memory.version = 7;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(Gpu(0), &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  EXPECT_STREQ(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
  EXPECT_STREQ(nvmlErrorString(NVML_ERROR_UNKNOWN), "Unknown Error");
}

TEST_F(Nvml, AGpuBelongsToNoFabric) {
  unsigned int info[11];
  for (const unsigned int version : {kNvmlGpuFabricInfoVersion2, kNvmlGpuFabricInfoVersion3}) {
    std::fill(std::begin(info), std::end(info), 7);
    info[0] = version;
    EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(Gpu(0), info), NVML_SUCCESS);
    const size_t words = (version & 0xffff) / sizeof(*info);
    EXPECT_EQ(info[0], version);
    EXPECT_EQ(std::count(info + 1, info + words, 0u), static_cast<ptrdiff_t>(words) - 1);
    EXPECT_EQ(info[words], 7u);  // beyond the caller's structure
  }
  info[0] = 4096 | 2u << 24;
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(Gpu(0), info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST_F(Nvml, CountsInitializations) {
  ASSERT_EQ(nvmlInitWithFlags(0), NVML_SUCCESS);
  ASSERT_EQ(nvmlShutdown(), NVML_SUCCESS);
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  const nvmlDevice_t device = Gpu(1);
  ASSERT_EQ(nvmlShutdown(), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  EXPECT_EQ(IndexOf(device), 1u);
}

}  // namespace nvml_test
}  // namespace mccs::emulation
