// Memory: what a pointer is, and what becomes of it.

#include <chrono>
#include <cstring>
#include <thread>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

Outcome AddressRange() {
  constexpr size_t kBytes = (4 << 20) + 1234;
  void* device = nullptr;
  PROBE_CALL(cudaMalloc(&device, kBytes));
  CUdeviceptr base = 0;
  size_t bytes = 0;
  PROBE_CALL(cuMemGetAddressRange(&base, &bytes, Pointer(device) + 4097));
  PROBE_HOLDS(base == Pointer(device), "the base is not what cudaMalloc returned");
  PROBE_HOLDS(bytes >= kBytes, "the size is smaller than the allocation");
  PROBE_HOLDS(cuMemGetAddressRange(&base, &bytes, Pointer(&base)) != CUDA_SUCCESS,
              "a pointer into the stack has an address range");
  return Pass();
}

Outcome BufferId(const void* pointer, unsigned long long* id) {
  PROBE_CALL(cuPointerGetAttribute(id, CU_POINTER_ATTRIBUTE_BUFFER_ID, Pointer(pointer)));
  return Pass();
}

Outcome BufferIds() {
  constexpr size_t kBytes = 8 << 20;
  constexpr int kRounds = 20;
  unsigned long long last = 0;
  for (int i = 0; i < kRounds; ++i) {
    char* device = nullptr;
    unsigned long long at_base = 0;
    unsigned long long inside = 0;
    PROBE_CALL(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
    if (Outcome o = BufferId(device, &at_base); o.verdict != Verdict::kPass) return o;
    if (Outcome o = BufferId(device + kBytes / 2, &inside); o.verdict != Verdict::kPass) return o;
    PROBE_CALL(cudaFree(device));
    PROBE_HOLDS(at_base == inside, "two ids within one allocation");
    PROBE_HOLDS(at_base != last, "an id came again after free and malloc");
    last = at_base;
  }
  return Pass();
}

Outcome PointerAttributes() {
  void* device = nullptr;
  void* host = nullptr;
  int on_stack = 0;
  cudaPointerAttributes attributes;
  PROBE_CALL(cudaMalloc(&device, 4096));
  PROBE_CALL(cudaHostAlloc(&host, 4096, cudaHostAllocDefault));
  PROBE_CALL(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 100));
  PROBE_HOLDS(attributes.type == cudaMemoryTypeDevice && attributes.device == 0,
              "device memory is not said to be the device's");
  PROBE_CALL(cudaPointerGetAttributes(&attributes, host));
  PROBE_HOLDS(attributes.type == cudaMemoryTypeHost, "pinned memory is not said to be the host's");
  PROBE_CALL(cudaPointerGetAttributes(&attributes, &on_stack));
  PROBE_HOLDS(attributes.type == cudaMemoryTypeUnregistered, "the stack is said to be registered");
  return Pass();
}

Outcome IpcCapability() {
  void* device = nullptr;
  void* pooled = nullptr;
  unsigned capable = 0;
  PROBE_CALL(cudaMalloc(&device, 4096));
  PROBE_CALL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   Pointer(device)));
  PROBE_HOLDS(capable == 1, "memory of cudaMalloc cannot be exported");
  PROBE_CALL(cudaMallocAsync(&pooled, 4096, nullptr));
  PROBE_CALL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   Pointer(pooled)));
  PROBE_HOLDS(capable == 0, "memory of a pool can be exported by a legacy handle");
  cudaIpcMemHandle_t handle;
  PROBE_HOLDS(cudaIpcGetMemHandle(&handle, pooled) != cudaSuccess, "and gave such a handle");
  return Pass();
}

Outcome RegisteredAddress() {
  alignas(4096) static char memory[8192];
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cuMemHostRegister(memory, sizeof(memory), CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device = 0;
  PROBE_CALL(cuMemHostGetDevicePointer(&device, memory + 64, 0));
  PROBE_HOLDS(device == Pointer(memory + 64), "the GPU sees registered memory elsewhere");
  PROBE_HOLDS(cuMemHostRegister(memory, 4096, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
              "memory could be registered twice");
  PROBE_CALL(cuMemHostUnregister(memory));
  PROBE_HOLDS(cuMemHostUnregister(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
              "memory could be unregistered twice");
  return Pass();
}

Outcome FreeWaitsForWork() {
  uint64_t* words = PinnedWords(8);
  PROBE_HOLDS(words != nullptr, "no pinned memory");
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  PROBE_CALL(cudaMalloc(&device, 4 << 20));
  PROBE_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, CU_STREAM_WAIT_VALUE_GEQ));
  PROBE_CALL(cudaMemsetAsync(device, 1, 4 << 20, stream));
  std::thread releaser([words] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    StoreWord(words, 1);
  });
  const cudaError_t error = cudaFree(device);
  const bool waited = LoadWord(words) == 1;
  releaser.join();
  PROBE_CALL(error);
  PROBE_HOLDS(waited, "cudaFree returned while a stream still used the memory");
  PROBE_CALL(cudaStreamSynchronize(stream));
  return Pass();
}

Outcome FreeOfStranger() {
  int on_stack = 0;
  PROBE_HOLDS(cudaFree(&on_stack) == cudaErrorInvalidValue, "freeing the stack is no error");
  PROBE_CALL(cudaFree(nullptr));
  return Pass();
}

Outcome PageableSource() {
  uint64_t* words = PinnedWords(8);
  PROBE_HOLDS(words != nullptr, "no pinned memory");
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  char source[1024];
  PROBE_CALL(cudaMalloc(&device, sizeof(source)));
  PROBE_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  memset(source, 1, sizeof(source));
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(words), 1, CU_STREAM_WAIT_VALUE_GEQ));
  PROBE_CALL(cudaMemcpyAsync(device, source, sizeof(source), cudaMemcpyHostToDevice, stream));
  memset(source, 2, sizeof(source));
  StoreWord(words, 1);
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_CALL(cudaMemcpy(source, device, sizeof(source), cudaMemcpyDeviceToHost));
  PROBE_HOLDS(source[0] == 1 && source[1023] == 1,
              "small pageable memory was read after the call had returned");
  return Pass();
}

}  // namespace

std::vector<Check> MemoryChecks() {
  return {
      {"address_range", "the driver knows base and size around any device pointer", AddressRange},
      {"buffer_ids", "an allocation's id is its own, also at a reused address", BufferIds},
      {"pointer_attributes", "CUDA tells device, pinned and strange memory apart",
       PointerAttributes},
      {"ipc_capability", "cudaMalloc's memory is exportable, a pool's is not", IpcCapability},
      {"registered_address", "registered memory has one address for host and GPU",
       RegisteredAddress},
      {"free_waits_for_work", "cudaFree waits for the device's work", FreeWaitsForWork},
      {"free_of_stranger", "cudaFree refuses what it did not give", FreeOfStranger},
      {"pageable_source", "small pageable memory may be reused once the call returns",
       PageableSource},
  };
}

}  // namespace mccs::probe
