// CUDA for the shim's unit tests: the emulation, and a layer between it and its callers. The layer
// records what is enqueued on streams, counts objects, and makes calls fail. Its functions have the
// driver's names in the test program, where the shim finds them first.
//
// It also pretends what no program can request of the emulation: GPUs without access to each other,
// support for fabric handles, GPUs without virtual memory, and a reused stream handle.
//
// THREAD: any. Errors of CUDA in the helpers below abort the test program.
#ifndef MCCS_TESTS_UNIT_SHIM_TEST_CUDA_H_
#define MCCS_TESTS_UNIT_SHIM_TEST_CUDA_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mccs::test_cuda {

inline constexpr int kDevices = 8;

// Frees the memory of the helpers below, and discards all records, failures and pretences. Makes
// device 0 current in this thread if a helper has used CUDA.
// REQUIRES: no stream is blocked for ever.
void Reset();

void SetDevice(int ordinal);
int GetDevice();

void* Alloc(size_t bytes);
void* AllocHost(size_t bytes);
void* AllocManaged(size_t bytes);
void* AllocPool(size_t bytes);  // device memory that cannot be exported
void Free(void* memory);
// Frees the memory and allocates it again at the same address.
void Reallocate(void* memory);

// Virtual memory: reserved addresses, and chunks mapped in them.
inline constexpr size_t kGranularity = 2 << 20;
std::byte* Reserve(size_t bytes);
void Map(std::byte* place, size_t bytes, bool shareable = true);
void Unmap(std::byte* place);
// Properties of the memory at this address.
CUmemAllocationProp PropertiesAt(const void* address);
std::vector<int> DevicesWithAccess(const void* address);

CUstream MakeStream();
// True once the stream has no pending work; false after some seconds. The NULL stream: of all GPUs.
bool Synchronize(CUstream stream);
bool IsBusy(CUstream stream);

// Begins a capture of one stream. Another stream joins it, and must be joined before its end.
void BeginCapture(CUstream stream);
void JoinCapture(CUstream joining, CUstream captured);
CUgraph EndCapture(CUstream stream);
void Launch(CUgraph graph, CUstream stream);
// Returns when the destructors of its user objects have run.
void DestroyGraph(CUgraph graph);
size_t NodesOf(CUgraph graph);

// Work that a program enqueued on a stream, or captured from it, since Reset; in order.
struct Enqueued {
  enum Kind { kWrite, kWrite32, kWait, kCopy, kEvent } kind;
  CUdeviceptr address = 0;
  uint64_t value = 0;      // kCopy: bytes
  CUdeviceptr source = 0;  // kCopy
  bool by_kernel = false;  // kWait
};
std::vector<Enqueued> EnqueuedOn(CUstream stream);
// From now on a stream waits before it copies to this address, until ReleaseCopies.
void HoldCopiesTo(const void* address);
void ReleaseCopies();
// A copy to it is in a stream.
bool HasHeldCopy();

// Objects since Reset that are not yet released.
size_t allocations();   // of cuMemAlloc
size_t reservations();  // of cuMemAddressReserve
size_t registered_host_ranges();
// Bytes of GPU memory in use, less those at the last Reset.
int64_t used_bytes();
// How often a kernel was loaded onto the GPU of the current context.
int kernels_prepared();
// The first kImageStart bytes of each image that was loaded into the driver.
inline constexpr size_t kImageStart = 16;
std::vector<std::string> images_loaded();
// Handle types that the last cuMemCreate requested.
int requested_handle_types();

// Makes the next calls of this function of the driver fail; CUDA_SUCCESS: no more. The layer's
// functions (test_cuda_layer.cc) only.
void Fail(const std::string& function, CUresult error);

// Pretences.
void SetAttribute(CUdevice_attribute attribute, int value);  // of all GPUs
void PermitFabric(bool permitted);
void SeparateOddAndEvenGpus();
// The handle now means another stream, as after a destruction and a creation.
void RenewStreamId(CUstream stream);

}  // namespace mccs::test_cuda

#endif  // MCCS_TESTS_UNIT_SHIM_TEST_CUDA_H_
