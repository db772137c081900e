// The CUDA functions that this library calls, looked up at run time in the program.
//
// The library does not link CUDA: the program brings its own, or the emulation is preloaded. The
// table is filled once per process. cudaStream_t is CUstream, and the legacy (0, 1) and per-thread
// (2) handles mean the same to the driver, so the driver's functions are sufficient.
#ifndef MCCS_SHIM_CUDA_DRIVER_API_H_
#define MCCS_SHIM_CUDA_DRIVER_API_H_

#include <cuda.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs::shim {

// THREAD: any; immutable once loaded. Members are named after the driver's functions.
struct DriverApi {
  CUresult (*Init)(unsigned flags);
  CUresult (*GetErrorName)(CUresult error, const char** name);
  CUresult (*DriverGetVersion)(int* version);
  CUresult (*CtxGetCurrent)(CUcontext* context);
  CUresult (*CtxPushCurrent)(CUcontext context);
  CUresult (*CtxPopCurrent)(CUcontext* context);
  CUresult (*CtxGetDevice)(CUdevice* device);
  CUresult (*DeviceGet)(CUdevice* device, int ordinal);
  CUresult (*DeviceGetCount)(int* count);
  CUresult (*DeviceGetUuid)(CUuuid* uuid, CUdevice device);
  CUresult (*DeviceGetPCIBusId)(char* bus_id, int length, CUdevice device);
  CUresult (*DevicePrimaryCtxRetain)(CUcontext* context, CUdevice device);
  CUresult (*StreamWriteValue64)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags);
  CUresult (*StreamWriteValue32)(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags);
  CUresult (*StreamWaitValue64)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags);
  CUresult (*StreamSynchronize)(CUstream stream);
  CUresult (*StreamCreateWithPriority)(CUstream* stream, unsigned flags, int priority);
  CUresult (*CtxGetStreamPriorityRange)(int* least, int* greatest);
  CUresult (*StreamDestroy)(CUstream stream);
  CUresult (*StreamWaitEvent)(CUstream stream, CUevent event, unsigned flags);
  CUresult (*MemHostRegister)(void* address, size_t bytes, unsigned flags);
  CUresult (*MemHostUnregister)(void* address);
  CUresult (*MemHostGetDevicePointer)(CUdeviceptr* device_address, void* address, unsigned flags);
  CUresult (*PointerGetAttribute)(void* data, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult (*MemGetAddressRange)(CUdeviceptr* base, size_t* bytes, CUdeviceptr address);
  CUresult (*MemAlloc)(CUdeviceptr* address, size_t bytes);
  CUresult (*MemFree)(CUdeviceptr address);
  CUresult (*IpcGetMemHandle)(CUipcMemHandle* handle, CUdeviceptr address);
  CUresult (*IpcOpenMemHandle)(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags);
  CUresult (*IpcCloseMemHandle)(CUdeviceptr address);
  CUresult (*MemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*EventCreate)(CUevent* event, unsigned flags);
  CUresult (*EventRecord)(CUevent event, CUstream stream);
  CUresult (*EventQuery)(CUevent event);
  CUresult (*EventDestroy)(CUevent event);

  // Null if the driver or the program lacks them.
  CUresult (*StreamGetId)(CUstream stream, unsigned long long* id);
  CUresult (*StreamIsCapturing)(CUstream stream, CUstreamCaptureStatus* status);
  CUresult (*ThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode);
  CUresult (*MemRetainAllocationHandle)(CUmemGenericAllocationHandle* handle, void* address);
  CUresult (*MemRelease)(CUmemGenericAllocationHandle handle);
  CUresult (*MemExportToShareableHandle)(void* shared, CUmemGenericAllocationHandle handle,
                                         CUmemAllocationHandleType as, unsigned long long flags);
  CUresult (*MemImportFromShareableHandle)(CUmemGenericAllocationHandle* handle, void* shared,
                                           CUmemAllocationHandleType type);
  CUresult (*MemGetHandleForAddressRange)(void* handle, CUdeviceptr address, size_t bytes,
                                          CUmemRangeHandleType type, unsigned long long flags);
  CUresult (*DeviceTotalMem)(size_t* bytes, CUdevice device);
  CUresult (*DeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice device);
  CUresult (*DeviceCanAccessPeer)(int* can, CUdevice device, CUdevice peer);
  CUresult (*CtxEnablePeerAccess)(CUcontext peer, unsigned flags);
  CUresult (*MemGetAllocationGranularity)(size_t* bytes, const CUmemAllocationProp* properties,
                                          CUmemAllocationGranularity_flags option);
  CUresult (*MemCreate)(CUmemGenericAllocationHandle* handle, size_t bytes,
                        const CUmemAllocationProp* properties, unsigned long long flags);
  CUresult (*MemAddressReserve)(CUdeviceptr* address, size_t bytes, size_t alignment,
                                CUdeviceptr hint, unsigned long long flags);
  CUresult (*MemAddressFree)(CUdeviceptr address, size_t bytes);
  CUresult (*MemMap)(CUdeviceptr address, size_t bytes, size_t offset,
                     CUmemGenericAllocationHandle handle, unsigned long long flags);
  CUresult (*MemUnmap)(CUdeviceptr address, size_t bytes);
  CUresult (*MemSetAccess)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                           size_t count);
  bool has_virtual_memory() const {
    return DeviceGetAttribute != nullptr && DeviceCanAccessPeer != nullptr &&
           MemGetAllocationGranularity != nullptr && MemCreate != nullptr &&
           MemRelease != nullptr && MemAddressReserve != nullptr && MemAddressFree != nullptr &&
           MemMap != nullptr && MemUnmap != nullptr && MemSetAccess != nullptr;
  }
  CUresult (*StreamGetCaptureInfo)(CUstream stream, CUstreamCaptureStatus* status,
                                   unsigned long long* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges,
                                   size_t* count);
  CUresult (*UserObjectCreate)(CUuserObject* object, void* pointer, CUhostFn destroy,
                               unsigned references, unsigned flags);
  CUresult (*UserObjectRelease)(CUuserObject object, unsigned count);
  CUresult (*GraphRetainUserObject)(CUgraph graph, CUuserObject object, unsigned count,
                                    unsigned flags);
  bool captures_graphs() const {
    return StreamGetCaptureInfo != nullptr && UserObjectCreate != nullptr &&
           UserObjectRelease != nullptr && GraphRetainUserObject != nullptr;
  }
  CUresult (*LibraryLoadData)(CUlibrary* library, const void* code, CUjit_option* jit_options,
                              void** jit_values, unsigned jit_count, CUlibraryOption* options,
                              void** values, unsigned count);
  CUresult (*LibraryGetKernel)(CUkernel* kernel, CUlibrary library, const char* name);
  CUresult (*KernelGetFunction)(CUfunction* function, CUkernel kernel);
  CUresult (*FuncLoad)(CUfunction function);  // null before CUDA 12.4, which loads functions anyway
  CUresult (*LaunchKernel)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, CUstream stream, void** parameters, void** extra);
  bool launches_kernels() const {
    return LibraryLoadData != nullptr && LibraryGetKernel != nullptr &&
           KernelGetFunction != nullptr && LaunchKernel != nullptr && MemsetD8Async != nullptr;
  }
  CUresult (*MemsetD8Async)(CUdeviceptr address, unsigned char value, size_t count,
                            CUstream stream);
  int (*RuntimeGetDevice)(int* ordinal);  // cudaGetDevice of the program's libcudart
};

// Fills the table from the libraries that the program has loaded, else from libcuda.so.1.
// Initialises the driver. Errors: kUnknown (a CUDA error), naming the missing function.
absl::StatusOr<DriverApi> LoadDriverApi();

// An attribute of the GPU with this CUDA ordinal; 0 if the driver does not know it.
int AttributeOf(const DriverApi& driver, CUdevice_attribute attribute, int ordinal);

// kUnknown with "WHAT: CUDA_ERROR_…", and cause and remedy where they are known (cuda_error.h): the
// program's CUDA failed, not an argument. Contains a GpuFailure of the current context if the error
// means one.
absl::Status CudaError(const DriverApi& driver, CUresult error, std::string_view what);

inline absl::Status CheckCuda(const DriverApi& driver, CUresult error, std::string_view what) {
  return error == CUDA_SUCCESS ? absl::OkStatus() : CudaError(driver, error, what);
}

// The context and ordinal of this thread's current device, which a new communicator uses.
struct DeviceBinding {
  CUcontext context;
  int ordinal;
};
absl::StatusOr<DeviceBinding> CurrentDevice(const DriverApi& driver);
absl::StatusOr<DeviceBinding> DeviceByOrdinal(const DriverApi& driver, int ordinal);

// Makes `context` current for this thread in its scope; then restores the caller's context.
class ScopedContext {
 public:
  ScopedContext(const DriverApi& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    driver_.CtxGetCurrent(&current);
    pushed_ = current != context && driver_.CtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~ScopedContext() {
    CUcontext popped;
    if (pushed_) driver_.CtxPopCurrent(&popped);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  const DriverApi& driver_;
  bool pushed_;
};

// In its scope this thread may make calls that a capture of this or another thread would forbid,
// such as allocations. It must not use a stream that is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver) : driver_(driver) { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() {
    if (driver_.ThreadExchangeStreamCaptureMode != nullptr) {
      driver_.ThreadExchangeStreamCaptureMode(&mode_);
    }
  }

  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Identifies a stream, also among streams that reuse its handle: CUDA's number of the stream;
// without it, the handle. The per-thread default stream differs for each calling thread.
uint64_t StreamKey(const DriverApi& driver, CUstream stream);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_DRIVER_API_H_
