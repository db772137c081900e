// A CUDA driver for the shim's unit tests: host memory, and streams that move only when a test says
// so. The driver's functions are defined with their real names in the test program, where the shim
// finds them as it would find a preloaded emulation.
#ifndef MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_H_
#define MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace mccs::fake_cuda {

inline constexpr int kDevices = 8;

// Back to the beginning: no memory, no streams, device 0 current in this thread.
void Reset();

void SetDevice(int ordinal);
int GetDevice();

void* Alloc(size_t bytes);
void Free(void* memory);
void* AllocHost(size_t bytes);  // known to CUDA, but no device memory
void* AllocManaged(size_t bytes);
void* AllocPool(size_t bytes);  // device memory that cannot be exported

// Virtual memory: addresses, and chunks that come and go in them (fake_virtual_memory.cc).
std::byte* Reserve(size_t bytes);
void Map(std::byte* place, size_t bytes, bool shareable = true);
void Unmap(std::byte* place);
inline constexpr size_t kGranularity = 16 << 10;
// What the GPUs say of themselves.
struct VirtualSupport {
  bool memory = true;
  bool descriptors = true;
  bool fabric = false;
  bool fabric_is_permitted = true;
};
void Support(const VirtualSupport& support);
// The next calls of this function of the driver's virtual memory fail.
void FailVirtual(const char* function, CUresult error);
// What the driver's functions made: ranges of addresses, memory that something refers to.
size_t reservations();
size_t virtual_memories();
// Of the memory at this address.
CUmemAllocationProp PropertiesAt(const void* address);
std::vector<int> DevicesWithAccess(const void* address);

// What the fake knows of an address.
enum class Kind { kDevice, kHost, kManaged, kPool, kVirtual };
void Know(void* memory, size_t bytes, Kind kind);
void Forget(void* memory);

// The next calls of cuMemAlloc fail with this.
void FailAllocations(CUresult error);
// Allocations that are alive, of any kind.
size_t allocations();
// As if the program freed memory and got other memory at the same address.
void Reallocate(void* memory);

CUstream MakeStream();
// The next MakeStream gives the same handle again; the old stream's work stays queued.
void DestroyStream(CUstream stream);

// A capture of one stream; others join it. What is captured is launched as one row, in the order of
// the calls.
void BeginCapture(CUstream stream);
void JoinCapture(CUstream joining, CUstream captured);
CUgraph EndCapture(CUstream stream);
void InvalidateCapture(CUstream stream);
void Launch(CUgraph graph, CUstream stream);
// Runs the destructors of its user objects.
void DestroyGraph(CUgraph graph);

// What is queued on the stream and has not happened.
struct Queued {
  enum Kind { kWrite, kWrite32, kWait, kCopy, kEvent } kind;
  CUdeviceptr address;
  uint64_t value;          // kCopy: bytes; kEvent: how often it was recorded before
  CUdeviceptr source = 0;  // kCopy
  bool by_kernel = false;  // kWait
};
std::vector<Queued> Pending(CUstream stream);
std::vector<Queued> NodesOf(CUgraph graph);

// Does what can be done on all streams. True if anything was done.
bool Advance();
// Advances until the stream is empty; false if that takes longer than a bound of seconds.
bool Synchronize(CUstream stream);

// Orders what a thread did before with what a thread sees after, for the thread sanitizer: shim and
// fake daemon map the fences at different addresses, so that it cannot see them meet.
void MeetStreams();

// The next calls of cuLibraryLoadData fail with this.
void FailLibraries(CUresult error);
// How often a kernel was put onto the GPU of the current context.
int kernels_prepared();

// The next calls of the stream functions fail with this.
void FailStreamCalls(CUresult error);

size_t registered_host_ranges();

}  // namespace mccs::fake_cuda

#endif  // MCCS_TESTS_UNIT_SHIM_FAKE_CUDA_H_
