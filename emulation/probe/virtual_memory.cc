// Virtual memory management: memory and addresses are separate objects.

#include <unistd.h>

#include "emulation/probe/shared_memory.h"

namespace mccs::probe {
namespace {

CUmemAllocationProp Properties(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = types;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

constexpr CUmemAllocationHandleType kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAccessDesc ReadWrite() {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

Outcome Start(size_t* page, const CUmemAllocationProp& properties = Properties()) {
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaFree(nullptr));
  PROBE_CALL(cuMemGetAllocationGranularity(page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return Pass();
}

Outcome MapAt(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle) {
  const CUmemAccessDesc access = ReadWrite();
  PROBE_CALL(cuMemMap(address, bytes, 0, handle, 0));
  PROBE_CALL(cuMemSetAccess(address, bytes, &access, 1));
  return Pass();
}

Outcome ByteAt(CUdeviceptr address, unsigned char expected) {
  unsigned char seen = 0;
  PROBE_CALL(cuMemcpyDtoH(&seen, address, 1));
  PROBE_EXPECT(seen == expected,
               "memory holds " + std::to_string(seen) + ", expected " + std::to_string(expected));
  return Pass();
}

PROBE_CHECK(vmm_maps,
            "memory can be mapped, unmapped and mapped elsewhere, and keeps its content") {
  size_t page = 0;
  PROBE_PASSES(Start(&page));
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  PROBE_EXPECT(cuMemCreate(&handle, page + 1, &properties, 0) == CUDA_ERROR_INVALID_VALUE,
               "cuMemCreate accepted a size that is not a multiple of the page size");
  PROBE_CALL(cuMemCreate(&handle, page, &properties, 0));
  PROBE_CALL(cuMemAddressReserve(&range, 4 * page, 0, 0, 0));
  PROBE_PASSES(MapAt(range + page, page, handle));
  PROBE_EXPECT(cuMemMap(range + page, page, 0, handle, 0) != CUDA_SUCCESS,
               "an address was mapped twice");
  PROBE_CALL(cuMemsetD8(range + page, 7, page));
  PROBE_CALL(cuCtxSynchronize());
  PROBE_CALL(cuMemUnmap(range + page, page));
  PROBE_PASSES(MapAt(range, page, handle));
  PROBE_PASSES(ByteAt(range + page - 1, 7));  // the memory kept its content
  PROBE_EXPECT(cuMemAddressFree(range, 4 * page) != CUDA_SUCCESS,
               "a range with a mapping was freed");
  PROBE_CALL(cuMemRelease(handle));
  PROBE_PASSES(ByteAt(range, 7));  // the mapping keeps the memory
  PROBE_CALL(cuMemUnmap(range, page));
  PROBE_CALL(cuMemAddressFree(range, 4 * page));
  return Pass();
}

// The pattern of an allocator with expandable segments: one range with many adjacent mappings.
PROBE_CHECK(vmm_one_range_many_memories, "adjacent mappings are one range for copies and memset") {
  constexpr size_t kParts = 4;
  size_t page = 0;
  PROBE_PASSES(Start(&page));
  const CUmemAllocationProp properties = Properties(kDescriptor);
  CUmemGenericAllocationHandle handles[kParts] = {};
  CUdeviceptr range = 0;
  PROBE_CALL(cuMemAddressReserve(&range, kParts * page, 0, 0, 0));
  for (size_t i = 0; i < kParts; ++i) {
    PROBE_CALL(cuMemCreate(&handles[i], page, &properties, 0));
    PROBE_CALL(cuMemMap(range + i * page, page, 0, handles[i], 0));
  }
  const CUmemAccessDesc access = ReadWrite();
  PROBE_CALL(cuMemSetAccess(range, kParts * page, &access, 1));
  PROBE_CALL(cuMemsetD8(range, 1, kParts * page));
  PROBE_CALL(cuMemsetD8(range + page - 8, 2, 16));  // across a boundary
  PROBE_PASSES(ByteAt(range + page, 2));
  PROBE_PASSES(ByteAt(range + page + 8, 1));
  CUdeviceptr base = 0;
  size_t bytes = 0;
  PROBE_CALL(cuMemGetAddressRange(&base, &bytes, range + 2 * page + 5));
  PROBE_EXPECT(base == range + 2 * page && bytes == page,
               "the address range of a mapping differs from the mapping");
  CUmemGenericAllocationHandle found = 0;
  PROBE_CALL(cuMemRetainAllocationHandle(&found, reinterpret_cast<void*>(range + page + 5)));
  PROBE_CALL(cuMemUnmap(range + page, page));
  PROBE_PASSES(MapAt(range + page, page, found));
  PROBE_PASSES(ByteAt(range + page, 2));
  PROBE_CALL(cuCtxSynchronize());
  PROBE_CALL(cuMemUnmap(range, kParts * page));
  PROBE_CALL(cuMemAddressFree(range, kParts * page));
  return Pass();
}

PROBE_CHECK(vmm_pointers, "a mapping has its own id, range and handle types") {
  size_t page = 0;
  PROBE_PASSES(Start(&page));
  const CUmemAllocationProp properties = Properties(kDescriptor);
  CUmemGenericAllocationHandle first = 0;
  CUmemGenericAllocationHandle second = 0;
  CUdeviceptr range = 0;
  PROBE_CALL(cuMemCreate(&first, page, &properties, 0));
  PROBE_CALL(cuMemCreate(&second, page, &properties, 0));
  PROBE_CALL(cuMemAddressReserve(&range, page, 0, 0, 0));
  PROBE_PASSES(MapAt(range, page, first));
  unsigned capable = 1;
  unsigned long long types = 0;
  unsigned long long before = 0;
  unsigned long long after = 0;
  CUmemorytype type{};
  PROBE_CALL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, range + 5));
  PROBE_EXPECT(type == CU_MEMORYTYPE_DEVICE, "mapped memory is not reported as device memory");
  PROBE_CALL(
      cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, range));
  PROBE_EXPECT(capable == 0, "mapped memory can be exported by a legacy handle");
  PROBE_CALL(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, range));
  PROBE_EXPECT((types & kDescriptor) != 0,
               "a pointer attribute does not return the allowed export types");
  PROBE_CALL(cuPointerGetAttribute(&before, CU_POINTER_ATTRIBUTE_BUFFER_ID, range));
  PROBE_CALL(cuMemUnmap(range, page));
  PROBE_PASSES(MapAt(range, page, second));
  PROBE_CALL(cuPointerGetAttribute(&after, CU_POINTER_ATTRIBUTE_BUFFER_ID, range));
  PROBE_EXPECT(before != after, "an address that is mapped again keeps its id");
  CUipcMemHandle handle;
  PROBE_EXPECT(cuIpcGetMemHandle(&handle, range) != CUDA_SUCCESS,
               "cuIpcGetMemHandle accepted mapped memory");
  CUmemAllocationProp reported{};
  PROBE_CALL(cuMemGetAllocationPropertiesFromHandle(&reported, second));
  PROBE_EXPECT(reported.location.id == 0 && reported.requestedHandleTypes == kDescriptor,
               "the properties of a handle differ from those of cuMemCreate");
  return Pass();
}

PROBE_CHECK(vmm_access, "a mapping is inaccessible until access is set") {
  size_t page = 0;
  PROBE_PASSES(Start(&page));
  const CUmemAllocationProp properties = Properties();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  PROBE_CALL(cuMemCreate(&handle, page, &properties, 0));
  PROBE_CALL(cuMemAddressReserve(&range, page, 0, 0, 0));
  PROBE_CALL(cuMemMap(range, page, 0, handle, 0));
  const CUmemLocation location = properties.location;
  unsigned long long flags = ~0ull;
  PROBE_CALL(cuMemGetAccess(&flags, &location, range));
  PROBE_EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "a new mapping is accessible");
  const CUmemAccessDesc access = ReadWrite();
  PROBE_CALL(cuMemSetAccess(range, page, &access, 1));
  PROBE_CALL(cuMemGetAccess(&flags, &location, range));
  PROBE_EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "cuMemSetAccess did not give access");
  return Pass();
}

Outcome Import(Peer& self) {
  const int fd = ReceiveDescriptor(self.socket());
  PROBE_EXPECT(fd >= 0, "no descriptor received");
  size_t page = 0;
  PROBE_PASSES(Start(&page));
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  PROBE_CALL(cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kDescriptor));
  close(fd);
  PROBE_CALL(cuMemAddressReserve(&range, page, 0, 0, 0));
  PROBE_PASSES(MapAt(range, page, handle));
  PROBE_PASSES(ByteAt(range, 5));
  PROBE_CALL(cuMemsetD8(range, 6, page));
  PROBE_CALL(cuCtxSynchronize());
  char done = 1;
  self.Send(&done, 1);
  return Pass();
}

PROBE_CHECK(vmm_descriptors, "memory is shared with another process as a descriptor") {
  Peer peer(Import);
  size_t page = 0;
  PROBE_PASSES(Start(&page));
  const CUmemAllocationProp properties = Properties(kDescriptor);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  PROBE_CALL(cuMemCreate(&handle, page, &properties, 0));
  PROBE_CALL(cuMemAddressReserve(&range, page, 0, 0, 0));
  PROBE_PASSES(MapAt(range, page, handle));
  PROBE_CALL(cuMemsetD8(range, 5, page));
  PROBE_CALL(cuCtxSynchronize());
  int fd = -1;
  PROBE_CALL(cuMemExportToShareableHandle(&fd, handle, kDescriptor, 0));
  PROBE_EXPECT(SendDescriptor(peer.socket(), fd), "cannot send the descriptor");
  close(fd);
  char done = 0;
  PROBE_EXPECT(peer.Receive(&done, 1), "the second process did not map the memory");
  PROBE_PASSES(ByteAt(range, 6));
  const CUmemAllocationProp closed = Properties();
  PROBE_CALL(cuMemCreate(&handle, page, &closed, 0));
  PROBE_EXPECT(cuMemExportToShareableHandle(&fd, handle, kDescriptor, 0) != CUDA_SUCCESS,
               "memory without an export type was exported");
  return peer.Join();
}

PROBE_CHECK(out_of_memory, "an allocation beyond the memory is an error that is not sticky") {
  PROBE_CALL(cudaSetDevice(0));
  size_t free_bytes = 0;
  size_t total = 0;
  void* device = nullptr;
  PROBE_CALL(cudaMemGetInfo(&free_bytes, &total));
  PROBE_EXPECT(cudaMalloc(&device, 2 * total) == cudaErrorMemoryAllocation,
               "an allocation larger than the GPU's memory succeeded");
  PROBE_EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation,
               "the last error is not cudaErrorMemoryAllocation");
  PROBE_CALL(cudaMalloc(&device, 64 << 20));  // the error is not sticky
  size_t less = 0;
  PROBE_CALL(cudaMemGetInfo(&less, &total));
  PROBE_EXPECT(less + (64 << 20) <= free_bytes, "an allocation did not reduce the free memory");
  PROBE_CALL(cudaFree(device));
  return Pass();
}

}  // namespace
}  // namespace mccs::probe
