// Memory pools, managed and pinned memory: their attributes, and when memory is freed.

#include <cstring>

#include "emulation/probe/probe.h"

namespace mccs::probe {
namespace {

constexpr size_t kBlockBytes = 8 << 20;

Outcome Bytes(cudaMemPool_t pool, cudaMemPoolAttr attribute, uint64_t* bytes) {
  PROBE_CALL(cudaMemPoolGetAttribute(pool, attribute, bytes));
  return Pass();
}

Outcome MakePool(cudaMemPool_t* pool) {
  cudaMemPoolProps properties;
  memset(&properties, 0, sizeof(properties));
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaMemPoolCreate(pool, &properties));
  return Pass();
}

PROBE_CHECK(pool_counts, "a pool counts reserved and used bytes") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaMemPool_t pool = nullptr;
  PROBE_PASSES(MakePool(&pool));
  void* device = nullptr;
  uint64_t used = 0;
  uint64_t reserved = 0;
  uint64_t high = 0;
  PROBE_CALL(cudaMallocFromPoolAsync(&device, kBlockBytes, pool, stream));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  PROBE_EXPECT(used >= kBlockBytes && reserved >= used, "a pool does not count blocks in use");
  PROBE_CALL(cudaFreeAsync(device, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrUsedMemHigh, &high));
  PROBE_EXPECT(used == 0 && high >= kBlockBytes, "a pool does not count freed blocks");
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  PROBE_EXPECT(reserved == 0, "a synchronization frees no blocks with a threshold of 0");
  PROBE_CALL(cudaMemPoolDestroy(pool));
  return Pass();
}

PROBE_CHECK(pool_reuses_blocks, "a pool keeps blocks below its threshold for its streams") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaMemPool_t pool = nullptr;
  PROBE_PASSES(MakePool(&pool));
  uint64_t bytes = ~uint64_t{0};
  void* first = nullptr;
  void* second = nullptr;
  PROBE_CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
  PROBE_CALL(cudaMallocFromPoolAsync(&first, kBlockBytes, pool, stream));
  PROBE_CALL(cudaFreeAsync(first, stream));
  PROBE_CALL(cudaMallocFromPoolAsync(&second, kBlockBytes, pool, stream));
  PROBE_EXPECT(first == second, "a stream did not reuse the block that it freed");
  PROBE_CALL(cudaFreeAsync(second, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  PROBE_EXPECT(bytes >= kBlockBytes, "a pool frees blocks below its threshold");
  PROBE_CALL(cudaMemPoolTrimTo(pool, 0));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  PROBE_EXPECT(bytes == 0, "a pool was not trimmed");
  return Pass();
}

PROBE_CHECK(pool_block_waits, "another stream reuses a freed block only after the free") {
  PROBE_WORDS(words, 8);
  PROBE_STREAM(busy, cudaStreamNonBlocking);
  PROBE_STREAM(other, cudaStreamNonBlocking);
  cudaMemPool_t pool = nullptr;
  PROBE_PASSES(MakePool(&pool));
  uint64_t bytes = ~uint64_t{0};
  int no = 0;
  PROBE_CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
  PROBE_CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no));
  void* first = nullptr;
  void* second = nullptr;
  PROBE_CALL(cudaMallocFromPoolAsync(&first, kBlockBytes, pool, busy));
  PROBE_CALL(cuStreamWaitValue64(busy, Pointer(words), 1, kGeq));
  PROBE_CALL(cudaFreeAsync(first, busy));
  PROBE_CALL(cudaMallocFromPoolAsync(&second, kBlockBytes, pool, other));
  PROBE_EXPECT(first != second, "a block was reused before its stream reached the free");
  StoreWord(words, 1);
  PROBE_CALL(cudaStreamSynchronize(busy));
  return Pass();
}

PROBE_CHECK(pool_pointers,
            "a pool's memory is device memory with a pool attribute; cudaFree frees it, too") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaMemPool_t pool = nullptr;
  void* device = nullptr;
  PROBE_CALL(cudaDeviceGetDefaultMemPool(&pool, 0));
  PROBE_CALL(cudaMallocAsync(&device, 4096, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  cudaPointerAttributes attributes;
  PROBE_CALL(cudaPointerGetAttributes(&attributes, device));
  PROBE_EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0,
               "a pool's memory is not reported as device memory");
  CUmemoryPool owner = nullptr;
  PROBE_CALL(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, Pointer(device)));
  PROBE_EXPECT(owner == pool, "a pointer attribute does not return its pool");
  PROBE_CALL(cudaFree(device));  // not in stream order, which is allowed
  PROBE_EXPECT(cudaFreeAsync(device, stream) != cudaSuccess, "a block was freed twice");
  static_cast<void>(cudaGetLastError());
  PROBE_EXPECT(cudaMemPoolDestroy(pool) != cudaSuccess, "a default pool was destroyed");
  return Pass();
}

PROBE_CHECK(pool_current, "a device's current pool can be changed; blocks outlive their pool") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  cudaMemPool_t standard = nullptr;
  cudaMemPool_t pool = nullptr;
  cudaMemPool_t current = nullptr;
  void* device = nullptr;
  uint64_t used = 0;
  PROBE_PASSES(MakePool(&pool));
  PROBE_CALL(cudaDeviceGetDefaultMemPool(&standard, 0));
  PROBE_CALL(cudaDeviceSetMemPool(0, pool));
  PROBE_CALL(cudaMallocAsync(&device, kBlockBytes, stream));
  PROBE_PASSES(Bytes(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  PROBE_EXPECT(used >= kBlockBytes, "memory did not come from the current pool");
  PROBE_CALL(cudaMemPoolDestroy(pool));
  PROBE_CALL(cudaDeviceGetMemPool(&current, 0));
  PROBE_EXPECT(current == standard, "a destroyed pool stayed the current one");
  PROBE_CALL(cudaMemsetAsync(device, 1, kBlockBytes, stream));  // its blocks stay valid
  PROBE_CALL(cudaFreeAsync(device, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  return Pass();
}

PROBE_CHECK(managed_memory, "host and device share managed memory, which cannot be exported") {
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  int managed = 0;
  PROBE_CALL(cudaDeviceGetAttribute(&managed, cudaDevAttrConcurrentManagedAccess, 0));
  if (managed == 0) return Skip("this GPU has no concurrent access to managed memory");
  void* memory = nullptr;
  PROBE_CALL(cudaMallocManaged(&memory, 4096, cudaMemAttachGlobal));
  auto* const bytes = static_cast<unsigned char*>(memory);
  bytes[0] = 1;
  PROBE_CALL(cudaMemsetAsync(bytes + 1, 2, 4095, stream));
  PROBE_CALL(cudaMemPrefetchAsync(memory, 4096, {cudaMemLocationTypeDevice, 0}, 0, stream));
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_EXPECT(bytes[0] == 1 && bytes[4095] == 2, "host and device do not share managed memory");
  cudaPointerAttributes attributes;
  PROBE_CALL(cudaPointerGetAttributes(&attributes, memory));
  PROBE_EXPECT(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == memory &&
                   attributes.devicePointer == memory,
               "managed memory is not reported as managed");
  cudaIpcMemHandle_t handle;
  PROBE_EXPECT(cudaIpcGetMemHandle(&handle, memory) != cudaSuccess,
               "cudaIpcGetMemHandle accepted managed memory");
  static_cast<void>(cudaGetLastError());
  PROBE_CALL(cudaFree(memory));
  return Pass();
}

PROBE_CHECK(pinned_memory, "pinned and registered memory is host memory and cannot be exported") {
  alignas(4096) static char registered[4096];
  PROBE_PINNED_MEMORY(pinned, 4096);
  PROBE_CALL(cudaHostRegister(registered, sizeof(registered), cudaHostRegisterDefault));
  for (void* memory : {pinned, static_cast<void*>(registered)}) {
    cudaPointerAttributes attributes;
    void* device = nullptr;
    PROBE_CALL(cudaPointerGetAttributes(&attributes, static_cast<char*>(memory) + 8));
    PROBE_EXPECT(attributes.type == cudaMemoryTypeHost && attributes.devicePointer != nullptr,
                 "pinned memory is not reported as host memory");
    PROBE_CALL(cudaHostGetDevicePointer(&device, memory, 0));
    cudaIpcMemHandle_t handle;
    PROBE_EXPECT(cudaIpcGetMemHandle(&handle, device) != cudaSuccess,
                 "cudaIpcGetMemHandle accepted pinned memory");
    static_cast<void>(cudaGetLastError());
  }
  PROBE_CALL(cudaHostUnregister(registered));
  PROBE_EXPECT(cudaFreeHost(registered) != cudaSuccess, "cudaFreeHost accepted registered memory");
  static_cast<void>(cudaGetLastError());
  PROBE_CALL(cudaFreeHost(pinned));
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
