// Memory: kinds of pointers, and the lifetime of memory.

#include <cstring>
#include <thread>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

PROBE_CHECK(address_range, "the driver returns base and size for any device pointer") {
  constexpr size_t kBytes = (4 << 20) + 1234;
  PROBE_DEVICE_MEMORY(device, kBytes);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  PROBE_CALL(cuMemGetAddressRange(&base, &bytes, Pointer(device) + 4097));
  PROBE_EXPECT(base == Pointer(device),
               "the base differs from the address that cudaMalloc returned");
  PROBE_EXPECT(bytes >= kBytes, "the size is smaller than the allocation");
  PROBE_EXPECT(cuMemGetAddressRange(&base, &bytes, Pointer(&base)) != CUDA_SUCCESS,
               "a pointer into the stack has an address range");
  return Pass();
}

Outcome BufferId(const void* pointer, unsigned long long* id) {
  PROBE_CALL(cuPointerGetAttribute(id, CU_POINTER_ATTRIBUTE_BUFFER_ID, Pointer(pointer)));
  return Pass();
}

PROBE_CHECK(buffer_ids, "an allocation's id is unique, also at a reused address") {
  constexpr size_t kBytes = 8 << 20;
  constexpr int kRounds = 20;
  unsigned long long last = 0;
  for (int i = 0; i < kRounds; ++i) {
    char* device = nullptr;
    unsigned long long at_base = 0;
    unsigned long long inside = 0;
    PROBE_CALL(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
    PROBE_PASSES(BufferId(device, &at_base));
    PROBE_PASSES(BufferId(device + kBytes / 2, &inside));
    PROBE_CALL(cudaFree(device));
    PROBE_EXPECT(at_base == inside, "an allocation has two ids");
    PROBE_EXPECT(at_base != last, "an id was reused after free and malloc");
    last = at_base;
  }
  return Pass();
}

PROBE_CHECK(pointer_attributes, "CUDA distinguishes device, pinned and unknown memory") {
  int on_stack = 0;
  cudaPointerAttributes attributes;
  PROBE_DEVICE_MEMORY(device, 4096);
  PROBE_PINNED_MEMORY(host, 4096);
  PROBE_CALL(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 100));
  PROBE_EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0,
               "device memory is not reported as device memory");
  PROBE_CALL(cudaPointerGetAttributes(&attributes, host));
  PROBE_EXPECT(attributes.type == cudaMemoryTypeHost,
               "pinned memory is not reported as host memory");
  PROBE_CALL(cudaPointerGetAttributes(&attributes, &on_stack));
  PROBE_EXPECT(attributes.type == cudaMemoryTypeUnregistered,
               "CUDA reports the stack as registered memory");
  return Pass();
}

PROBE_CHECK(ipc_capability, "cudaMalloc's memory is exportable, a pool's is not") {
  void* pooled = nullptr;
  unsigned capable = 0;
  PROBE_DEVICE_MEMORY(device, 4096);
  PROBE_CALL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   Pointer(device)));
  PROBE_EXPECT(capable == 1, "memory of cudaMalloc cannot be exported");
  PROBE_CALL(cudaMallocAsync(&pooled, 4096, nullptr));
  PROBE_CALL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   Pointer(pooled)));
  PROBE_EXPECT(capable == 0, "memory of a pool can be exported by a legacy handle");
  cudaIpcMemHandle_t handle;
  PROBE_EXPECT(cudaIpcGetMemHandle(&handle, pooled) != cudaSuccess,
               "cudaIpcGetMemHandle accepted memory of a pool");
  return Pass();
}

PROBE_CHECK(registered_address, "registered memory has one address for host and GPU") {
  alignas(4096) static char memory[8192];
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cuMemHostRegister(memory, sizeof(memory), CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device = 0;
  PROBE_CALL(cuMemHostGetDevicePointer(&device, memory + 64, 0));
  PROBE_EXPECT(device == Pointer(memory + 64), "the GPU has another address for registered memory");
  PROBE_EXPECT(cuMemHostRegister(memory, 4096, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
               "memory could be registered twice");
  PROBE_CALL(cuMemHostUnregister(memory));
  PROBE_EXPECT(cuMemHostUnregister(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
               "memory could be unregistered twice");
  return Pass();
}

PROBE_CHECK(free_waits_for_work, "cudaFree waits for the device's work") {
  PROBE_WORDS(words, 8);
  PROBE_DEVICE_MEMORY(device, 4 << 20);
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaMemsetAsync(device, 1, 4 << 20, stream));
  std::thread releaser = StoreLater(words, 1, 50);
  const cudaError_t error = cudaFree(device);
  const bool waited = LoadWord(words) == 1;
  releaser.join();
  PROBE_CALL(error);
  PROBE_EXPECT(waited, "cudaFree returned while a stream still used the memory");
  PROBE_CALL(cudaStreamSynchronize(stream));
  return Pass();
}

PROBE_CHECK(free_of_unknown_memory, "cudaFree rejects memory of other allocators") {
  int on_stack = 0;
  PROBE_EXPECT(cudaFree(&on_stack) == cudaErrorInvalidValue,
               "cudaFree accepted an address of the stack");
  PROBE_CALL(cudaFree(nullptr));
  return Pass();
}

PROBE_CHECK(pageable_source, "small pageable memory may be reused once the call returns") {
  PROBE_WORDS(words, 8);
  char source[1024];
  PROBE_DEVICE_MEMORY(device, sizeof(source));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  memset(source, 1, sizeof(source));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaMemcpyAsync(device, source, sizeof(source), cudaMemcpyHostToDevice, stream));
  memset(source, 2, sizeof(source));
  StoreWord(words, 1);
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_CALL(cudaMemcpy(source, device, sizeof(source), cudaMemcpyDeviceToHost));
  PROBE_EXPECT(source[0] == 1 && source[1023] == 1,
               "small pageable memory was read after the call had returned");
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
