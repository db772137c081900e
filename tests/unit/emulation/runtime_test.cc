// The emulated libraries as a program sees them, including cases that cuda_probe cannot check on a
// GPU.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "emulation/include/mccs_emulation_kernel.h"

// Functions that nvcc's start-up code calls.
extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, CUstream);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t cudaGLSetGLDevice();  // a function that the emulation will never implement
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
}

namespace runtime_test {

constexpr dim3 kOne(1, 1, 1);

// The stubs that nvcc generates for kernels; only their addresses matter.
void ScaleStub() {}
void UnknownStub() {}

void Scale(const MccsEmulatedLaunch* launch, void* const* arguments) {
  float* data = *static_cast<float**>(arguments[0]);
  const float factor = *static_cast<float*>(arguments[1]);
  const size_t count = launch->grid[0] * launch->block[0];
  for (size_t i = 0; i < count; ++i) data[i] *= factor;
}

void AssertStub() {}

void FailAnAssertion(const MccsEmulatedLaunch*, void* const*) { mccsEmulationFailAssertion(); }

const void* Address(void (*stub)()) { return reinterpret_cast<const void*>(stub); }

class Runtime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    void** handle = __cudaRegisterFatBinary(nullptr);
    const auto add = [handle](void (*stub)(), const char* name) {
      __cudaRegisterFunction(handle, static_cast<const char*>(Address(stub)), nullptr, name, -1,
                             nullptr, nullptr, nullptr, nullptr, nullptr);
    };
    add(ScaleStub, "_Z5scalePff");
    add(UnknownStub, "_Z7unknownv");
    add(AssertStub, "_Z6assertv");
    const uint32_t bytes[] = {sizeof(float*), sizeof(float)};
    const MccsEmulatedKernel kernel{sizeof(MccsEmulatedKernel), "_Z5scalePff", Scale, 2, bytes, 0};
    ASSERT_EQ(mccsEmulationRegisterKernel(&kernel), 0);
    const MccsEmulatedKernel failing{
        sizeof(MccsEmulatedKernel), "_Z6assertv", FailAnAssertion, 0, nullptr, 1};
    ASSERT_EQ(mccsEmulationRegisterKernel(&failing), 0);
  }
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
};

TEST_F(Runtime, ReportsThatItIsEmulated) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(std::string(properties.name).rfind("Emulated H100", 0), 0u);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.multiProcessorCount, 132);
  int count = 0;
  int version = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 8);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(cudaSetDevice(8), cudaErrorInvalidDevice);
}

TEST_F(Runtime, AKernelRunsWithTheArgumentsOfItsLaunch) {
  float* data = nullptr;
  float values[64];
  for (float& value : values) value = 3;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&data), sizeof(values)), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(data, values, sizeof(values), cudaMemcpyDefault), cudaSuccess);
  float factor = 2;
  void* arguments[] = {&data, &factor};
  float* const kept = data;
  ASSERT_EQ(cudaLaunchKernel(Address(ScaleStub), dim3(2), dim3(32), arguments, 0, nullptr),
            cudaSuccess);
  factor = 100;  // too late to have an effect
  data = nullptr;
  ASSERT_EQ(cudaMemcpy(values, kept, sizeof(values), cudaMemcpyDeviceToHost), cudaSuccess);
  for (const float value : values) EXPECT_EQ(value, 6);
  EXPECT_EQ(cudaFree(kept), cudaSuccess);
}

TEST_F(Runtime, TheCompilersLaunchSequenceWorks) {
  float* data = nullptr;
  ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&data), 4096, cudaMemAttachGlobal),
            cudaSuccess);
  data[0] = 5;
  float factor = 3;
  void* arguments[] = {&data, &factor};
  __cudaPushCallConfiguration(kOne, kOne, 0, nullptr);
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 1;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream), cudaSuccess);
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(__cudaGetKernel(&kernel, Address(ScaleStub)), cudaSuccess);
  ASSERT_EQ(__cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(data[0], 15);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST_F(Runtime, AKernelWithoutAHostVersionFailsAndIsReportedOnce) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cudaLaunchKernel(Address(UnknownStub), kOne, kOne, nullptr, 0, nullptr),
              cudaErrorNoKernelImageForDevice);
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("_Z7unknownv"), std::string::npos) << printed;
  EXPECT_EQ(printed.find("_Z7unknownv"), printed.rfind("_Z7unknownv")) << printed;
  EXPECT_EQ(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Runtime, AnUnimplementedFunctionIsReportedOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaGLSetGLDevice(), cudaErrorNotSupported);
  EXPECT_EQ(cudaGLSetGLDevice(), cudaErrorNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "emulated CUDA: cudaGLSetGLDevice is not implemented\n");
}

TEST_F(Runtime, AResetFreesTheMemory) {
  ASSERT_EQ(cudaSetDevice(5), cudaSuccess);
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  void* device = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device, 1 << 20), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, before);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
}

TEST_F(Runtime, ErrorsHaveNamesAndMessages) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorNoKernelImageForDevice), "no kernel image for device");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  const char* name = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(Runtime, LastErrorsBelongToTheirThreads) {
  EXPECT_EQ(cudaFree(reinterpret_cast<void*>(8)), cudaErrorInvalidValue);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Runtime, DriverEntryPointsAreTheNewestByDefault) {
  const auto find = [](const char* name, int version, unsigned long long flags) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult status;
    EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &function, version, flags, &status),
              cudaSuccess);
    EXPECT_EQ(status == cudaDriverEntryPointSuccess, function != nullptr);
    return function;
  };
  EXPECT_EQ(find("cuMemAlloc", 13000, 0), reinterpret_cast<void*>(&cuMemAlloc));
  EXPECT_EQ(find("cuStreamWaitValue64", 13000, 0), reinterpret_cast<void*>(&cuStreamWaitValue64));
  EXPECT_EQ(find("cuGetProcAddress", 13000, 0), reinterpret_cast<void*>(&cuGetProcAddress));
  EXPECT_NE(find("cuGetProcAddress", 11030, 0), reinterpret_cast<void*>(&cuGetProcAddress));
  EXPECT_NE(find("cuStreamQuery", 13000, cudaEnablePerThreadDefaultStream),
            find("cuStreamQuery", 13000, cudaEnableLegacyStream));
  EXPECT_EQ(find("cuNoSuchFunction", 13000, 0), nullptr);
}

// cuda.bindings passes the CUDA version that introduced each of its prototypes.
TEST_F(Runtime, DriverEntryPointsMatchTheRequestedVersion) {
  const auto find = [](const char* name, int version) {
    void* function = nullptr;
    EXPECT_EQ(cuGetProcAddress(name, &function, version, 0, nullptr), CUDA_SUCCESS) << name;
    return function;
  };
  EXPECT_EQ(find("cuCtxGetDevice", 2000), reinterpret_cast<void*>(&cuCtxGetDevice));
  EXPECT_EQ(find("cuCtxGetDevice", 13000), reinterpret_cast<void*>(&cuCtxGetDevice_v2));
  EXPECT_EQ(find("cuCtxSynchronize", 2000), reinterpret_cast<void*>(&cuCtxSynchronize));
  EXPECT_EQ(find("cuCtxSynchronize", 13050), reinterpret_cast<void*>(&cuCtxSynchronize_v2));
  EXPECT_EQ(find("cuStreamGetCtx", 9020), reinterpret_cast<void*>(&cuStreamGetCtx));
  EXPECT_EQ(find("cuStreamGetCtx", 12050), reinterpret_cast<void*>(&cuStreamGetCtx_v2));
  EXPECT_NE(find("cuGraphAddNode", 12020), find("cuGraphAddNode", 12030));
  EXPECT_NE(find("cuMemPrefetchAsync", 8000), find("cuMemPrefetchAsync", 12020));
}

TEST_F(Runtime, TheDeviceOfANullContextIsTheCurrentOne) {
  CUcontext second = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice_v2(&device, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuCtxGetDevice_v2(&device, second), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cuCtxGetDevice_v2(&device, reinterpret_cast<CUcontext>(&device)),
            CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetDevice_v2(nullptr, second), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Runtime, SynchronizingAContextWaitsOnlyForItsGpu) {
  CUcontext first = nullptr, second = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  uint32_t* word = nullptr;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&word), sizeof(*word), cudaHostAllocDefault),
            cudaSuccess);
  *word = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  ASSERT_EQ(cuStreamWaitValue32(nullptr, address, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32(nullptr, address, 2, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize_v2(second), CUDA_SUCCESS);
  EXPECT_EQ(*static_cast<volatile uint32_t*>(word), 0u);
  std::atomic_ref(*word).store(1);
  EXPECT_EQ(cuCtxSynchronize_v2(first), CUDA_SUCCESS);
  EXPECT_EQ(*static_cast<volatile uint32_t*>(word), 2u);
  EXPECT_EQ(cuCtxSynchronize_v2(reinterpret_cast<CUcontext>(word)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cudaFreeHost(word), cudaSuccess);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Runtime, AStreamHasItsGpusContextAndNoGreenOne) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  CUcontext context = nullptr, current = nullptr;
  int strange = 0;
  auto green = reinterpret_cast<CUgreenCtx>(&strange);
  EXPECT_EQ(cuStreamGetCtx_v2(stream, &context, &green), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(context, current);
  EXPECT_EQ(green, nullptr);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Runtime, AGpuHasMulticastButNoMulticastObjects) {
  int supported = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(supported, 1);
  CUmulticastObjectProp properties{};
  properties.numDevices = 2;
  properties.size = 1 << 21;
  size_t bytes = 0;
  EXPECT_EQ(cuMulticastGetGranularity(&bytes, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED),
            CUDA_SUCCESS);
  EXPECT_EQ(bytes, size_t{1} << 21);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMulticastCreate(&handle, &properties), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Runtime, DestroyedAndInvalidHandlesAreRejected) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(reinterpret_cast<cudaStream_t>(0x1234)),
            cudaErrorInvalidResourceHandle);
}

TEST_F(Runtime, CopiesBeyondAnAllocationAreRejected) {
  void* device = nullptr;
  char host[64] = {};
  ASSERT_EQ(cudaMalloc(&device, 32), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device, host, 33, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 32, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 0, 33), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, host, 32, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Runtime, TwoDimensionalCopiesKeepTheirPitches) {
  char* device = nullptr;
  size_t pitch = 0;
  char source[3][10];
  char target[3][16] = {};
  memset(source, 7, sizeof(source));
  ASSERT_EQ(cudaMallocPitch(reinterpret_cast<void**>(&device), &pitch, 10, 3), cudaSuccess);
  ASSERT_EQ(cudaMemset2D(device, pitch, 1, 10, 3), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(device, pitch, source, 10, 4, 3, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(target, 16, device, pitch, 10, 3, cudaMemcpyDeviceToHost), cudaSuccess);
  for (const auto& row : target) {
    EXPECT_EQ(row[3], 7);
    EXPECT_EQ(row[4], 1);
    EXPECT_EQ(row[10], 0);
  }
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Runtime, DevicesCopyAmongEachOther) {
  void* first = nullptr;
  void* second = nullptr;
  char value = 0;
  ASSERT_EQ(cudaMalloc(&first, 4096), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, 4096), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  ASSERT_EQ(cudaMemset(second, 9, 4096), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeer(first, 0, second, 1, 4096), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&value, static_cast<char*>(first) + 4095, 1, cudaMemcpyDefault),
            cudaSuccess);
  EXPECT_EQ(value, 9);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, second), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(0), cudaSuccess);
}

TEST_F(Runtime, StreamOrderedMemoryIsFreedInStreamOrder) {
  size_t before = 0;
  size_t during = 0;
  size_t after = 0;
  size_t total = 0;
  void* device = nullptr;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&device, 1 << 20, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&during, &total), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(device, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(before - during, size_t{1} << 20);
  EXPECT_EQ(after, before);
}

// In a process of its own, which cannot use CUDA afterwards.
TEST_F(Runtime, AllCallsFailAfterAFailedAssertion) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto launched =
            cudaLaunchKernel(Address(AssertStub), kOne, kOne, nullptr, 0, nullptr);
        void* memory = nullptr;
        const bool right = launched == cudaSuccess && cudaMalloc(&memory, 8) == cudaErrorAssert &&
                           cudaStreamQuery(nullptr) == cudaErrorAssert &&
                           cudaGetLastError() == cudaErrorAssert;
        _exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(mccsEmulationAssertionFailed(), 0);
}

// The exit of a process must not wait for a stream that waits forever.
TEST_F(Runtime, ABlockedStreamDoesNotBlockTheExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        void* words = nullptr;
        cudaHostAlloc(&words, 4096, cudaHostAllocDefault);
        const auto word = reinterpret_cast<CUdeviceptr>(words);
        const auto waits = cuStreamWaitValue64(nullptr, word, 1, CU_STREAM_WAIT_VALUE_GEQ);
        std::exit(waits == CUDA_SUCCESS ? 37 : 1);
      },
      testing::ExitedWithCode(37), "");
}

}  // namespace runtime_test
