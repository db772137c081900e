// A CUDA driver for the shim's unit tests: host memory, and streams that advance only when a test
// requests it. The driver's functions have their real names in the test program, where the shim
// finds them like those of a preloaded emulation.
#ifndef MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_H_
#define MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace mccs::fake_cuda {

inline constexpr int kDevices = 8;

// Resets everything: no memory, no streams, device 0 current in this thread.
void Reset();

void SetDevice(int ordinal);
int GetDevice();

void* Alloc(size_t bytes);
void Free(void* memory);
void* AllocHost(size_t bytes);  // known to CUDA, but not device memory
void* AllocManaged(size_t bytes);
void* AllocPool(size_t bytes);  // device memory that cannot be exported

// Virtual memory: reserved addresses, and chunks mapped in them (fake_virtual_memory.cc).
std::byte* Reserve(size_t bytes);
void Map(std::byte* place, size_t bytes, bool shareable = true);
void Unmap(std::byte* place);
inline constexpr size_t kGranularity = 16 << 10;
// The GPUs' reported features.
struct VirtualSupport {
  bool memory = true;
  bool descriptors = true;
  bool fabric = false;
  bool fabric_is_permitted = true;
};
void Support(const VirtualSupport& support);
// Makes the next calls of this virtual memory function of the driver fail.
void FailVirtual(const char* function, CUresult error);
// Objects that the driver's functions created: reserved ranges, memory with references.
size_t reservations();
size_t virtual_memories();
// Properties of the memory at this address.
CUmemAllocationProp PropertiesAt(const void* address);
std::vector<int> DevicesWithAccess(const void* address);

// Registers memory with the fake, or removes it.
enum class Kind { kDevice, kHost, kManaged, kPool, kVirtual };
void RegisterMemory(void* memory, size_t bytes, Kind kind);
void UnregisterMemory(void* memory);

// Makes the next calls of cuMemAlloc fail with this error.
void FailAllocations(CUresult error);
// The number of live allocations of any kind.
size_t allocations();
// Simulates a free and a new allocation at the same address.
void Reallocate(void* memory);

CUstream MakeStream();
// The next MakeStream returns the same handle; the old stream's work stays queued.
void DestroyStream(CUstream stream);

// Begins a capture of one stream; other streams join it. A launch runs the captured work as one
// sequence, in call order.
void BeginCapture(CUstream stream);
void JoinCapture(CUstream joining, CUstream captured);
CUgraph EndCapture(CUstream stream);
void InvalidateCapture(CUstream stream);
void Launch(CUgraph graph, CUstream stream);
// Runs the destructors of its user objects.
void DestroyGraph(CUgraph graph);

// An item that is queued on a stream and has not run.
struct Queued {
  enum Kind { kWrite, kWrite32, kWait, kCopy, kEvent } kind;
  CUdeviceptr address;
  uint64_t value;          // kCopy: bytes; kEvent: the number of earlier records
  CUdeviceptr source = 0;  // kCopy
  bool by_kernel = false;  // kWait
};
std::vector<Queued> Pending(CUstream stream);
std::vector<Queued> NodesOf(CUgraph graph);

// Runs all items that can run, on all streams. True if anything ran.
bool Advance();
// Advances until the stream is empty; false after some seconds.
bool Synchronize(CUstream stream);

// Orders a thread's earlier accesses before a thread's later ones, for the thread sanitizer: shim
// and fake daemon map the fences at different addresses, so it cannot see the synchronisation.
void SynchronizeWithStreams();

// Makes the next calls of cuLibraryLoadData fail with this error.
void FailLibraries(CUresult error);
// How often a kernel was loaded onto the GPU of the current context.
int kernels_prepared();

// Makes the next calls of the stream functions fail with this error.
void FailStreamCalls(CUresult error);

size_t registered_host_ranges();

}  // namespace mccs::fake_cuda

#endif  // MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_H_
