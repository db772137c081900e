#include "shim/cuda/driver_api.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "shim/cuda/cuda_error.h"

namespace mccs::shim {
namespace {

// The program's own CUDA first (a preloaded emulation, or a linked library); libcudart usually
// opens a real driver privately, and opening it again returns the same library.
class SymbolSource {
 public:
  void* Find(const char* name) {
    if (void* symbol = dlsym(RTLD_DEFAULT, name)) return symbol;
    if (library_ == nullptr) library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library_ == nullptr ? nullptr : dlsym(library_, name);
  }
  bool opened() const { return library_ != nullptr; }

 private:
  void* library_ = nullptr;  // never closed: the table points into it
};

constexpr uintptr_t kPerThreadStream = 0x2;  // CU_STREAM_PER_THREAD
constexpr uintptr_t kLegacyStream = 0x1;     // CU_STREAM_LEGACY, also NULL
constexpr uint64_t kThreadBit = uint64_t{1} << 63;

}  // namespace

absl::StatusOr<DriverApi> LoadDriverApi() {
  SymbolSource source;
  DriverApi api{};
  std::string missing;
  auto need = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(source.Find(name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  need(api.Init, "cuInit");
  need(api.GetErrorName, "cuGetErrorName");
  need(api.DriverGetVersion, "cuDriverGetVersion");
  need(api.CtxGetCurrent, "cuCtxGetCurrent");
  need(api.CtxPushCurrent, "cuCtxPushCurrent_v2");
  need(api.CtxPopCurrent, "cuCtxPopCurrent_v2");
  need(api.CtxGetDevice, "cuCtxGetDevice");
  need(api.DeviceGet, "cuDeviceGet");
  need(api.DeviceGetCount, "cuDeviceGetCount");
  need(api.DeviceGetUuid, "cuDeviceGetUuid_v2");
  need(api.DeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  need(api.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  need(api.StreamWriteValue64, "cuStreamWriteValue64_v2");
  need(api.StreamWriteValue32, "cuStreamWriteValue32_v2");
  need(api.StreamWaitValue64, "cuStreamWaitValue64_v2");
  need(api.StreamSynchronize, "cuStreamSynchronize");
  need(api.StreamCreateWithPriority, "cuStreamCreateWithPriority");
  need(api.CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange");
  need(api.StreamDestroy, "cuStreamDestroy_v2");
  need(api.StreamWaitEvent, "cuStreamWaitEvent");
  need(api.MemHostRegister, "cuMemHostRegister_v2");
  need(api.MemHostUnregister, "cuMemHostUnregister");
  need(api.MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
  need(api.PointerGetAttribute, "cuPointerGetAttribute");
  need(api.MemGetAddressRange, "cuMemGetAddressRange_v2");
  need(api.MemAlloc, "cuMemAlloc_v2");
  need(api.MemFree, "cuMemFree_v2");
  need(api.IpcGetMemHandle, "cuIpcGetMemHandle");
  need(api.IpcOpenMemHandle, "cuIpcOpenMemHandle_v2");
  need(api.IpcCloseMemHandle, "cuIpcCloseMemHandle");
  need(api.MemcpyAsync, "cuMemcpyAsync");
  need(api.EventCreate, "cuEventCreate");
  need(api.EventRecord, "cuEventRecord");
  need(api.EventQuery, "cuEventQuery");
  need(api.EventDestroy, "cuEventDestroy_v2");
  if (!missing.empty()) {
    return absl::UnknownError(
        absl::StrCat("no CUDA driver: ", missing, " is neither in this program nor in libcuda.so.1",
                     source.opened() ? "; install CUDA 12 or later" : ", which was not found"));
  }
  auto may_have = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(source.Find(name));
  };
  may_have(api.StreamGetId, "cuStreamGetId");
  may_have(api.StreamIsCapturing, "cuStreamIsCapturing");
  may_have(api.ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  may_have(api.MemRetainAllocationHandle, "cuMemRetainAllocationHandle");
  may_have(api.MemRelease, "cuMemRelease");
  may_have(api.MemExportToShareableHandle, "cuMemExportToShareableHandle");
  may_have(api.MemGetHandleForAddressRange, "cuMemGetHandleForAddressRange");
  may_have(api.DeviceTotalMem, "cuDeviceTotalMem_v2");
  may_have(api.DeviceGetAttribute, "cuDeviceGetAttribute");
  may_have(api.MemImportFromShareableHandle, "cuMemImportFromShareableHandle");
  may_have(api.DeviceCanAccessPeer, "cuDeviceCanAccessPeer");
  may_have(api.CtxEnablePeerAccess, "cuCtxEnablePeerAccess");
  may_have(api.MemGetAllocationGranularity, "cuMemGetAllocationGranularity");
  may_have(api.MemCreate, "cuMemCreate");
  may_have(api.MemAddressReserve, "cuMemAddressReserve");
  may_have(api.MemAddressFree, "cuMemAddressFree");
  may_have(api.MemMap, "cuMemMap");
  may_have(api.MemUnmap, "cuMemUnmap");
  may_have(api.MemSetAccess, "cuMemSetAccess");
  may_have(api.StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v3");
  may_have(api.UserObjectCreate, "cuUserObjectCreate");
  may_have(api.UserObjectRelease, "cuUserObjectRelease");
  may_have(api.GraphRetainUserObject, "cuGraphRetainUserObject");
  may_have(api.LibraryLoadData, "cuLibraryLoadData");
  may_have(api.LibraryGetKernel, "cuLibraryGetKernel");
  may_have(api.KernelGetFunction, "cuKernelGetFunction");
  may_have(api.FuncLoad, "cuFuncLoad");
  may_have(api.LaunchKernel, "cuLaunchKernel");
  may_have(api.MemsetD8Async, "cuMemsetD8Async");
  // Only the program's own runtime knows its cudaSetDevice; never open another runtime.
  api.RuntimeGetDevice = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "cudaGetDevice"));
  if (CUresult error = api.Init(0); error != CUDA_SUCCESS) return CudaError(api, error, "cuInit");
  return api;
}

int AttributeOf(const DriverApi& driver, CUdevice_attribute attribute, int ordinal) {
  int value = 0;
  const bool known = driver.DeviceGetAttribute != nullptr &&
                     driver.DeviceGetAttribute(&value, attribute, ordinal) == CUDA_SUCCESS;
  return known ? value : 0;
}

absl::Status CudaError(const DriverApi& driver, CUresult error, std::string_view what) {
  const char* name = nullptr;
  if (driver.GetErrorName(error, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
  const std::string_view explanation = ExplainCudaError(error);
  absl::Status status = absl::UnknownError(absl::StrCat(
      absl::string_view(what.data(), what.size()), ": ", name, " (", error, ")",
      explanation.empty() ? "" : ": ", absl::string_view(explanation.data(), explanation.size())));
  GpuFailure failure{.error = error, .context = nullptr};
  driver.CtxGetCurrent(&failure.context);
  AttachGpuFailure(failure, &status);
  return status;
}

absl::StatusOr<DeviceBinding> DeviceByOrdinal(const DriverApi& driver, int ordinal) {
  CUdevice device;
  if (CUresult error = driver.DeviceGet(&device, ordinal); error != CUDA_SUCCESS) {
    return CudaError(driver, error, absl::StrCat("cannot use CUDA device ", ordinal));
  }
  DeviceBinding binding{.context = nullptr, .ordinal = ordinal};
  if (CUresult error = driver.DevicePrimaryCtxRetain(&binding.context, device);
      error != CUDA_SUCCESS) {
    return CudaError(driver, error, absl::StrCat("cannot get a context on CUDA device ", ordinal));
  }
  return binding;
}

absl::StatusOr<DeviceBinding> CurrentDevice(const DriverApi& driver) {
  DeviceBinding binding{};
  CUdevice device;
  if (driver.CtxGetCurrent(&binding.context) == CUDA_SUCCESS && binding.context != nullptr &&
      driver.CtxGetDevice(&device) == CUDA_SUCCESS) {
    binding.ordinal = device;  // a CUdevice is the ordinal
    return binding;
  }
  int ordinal = 0;  // CUDA's default
  if (driver.RuntimeGetDevice != nullptr && driver.RuntimeGetDevice(&ordinal) != 0) ordinal = 0;
  return DeviceByOrdinal(driver, ordinal);
}

uint64_t StreamKey(const DriverApi& driver, CUstream stream) {
  unsigned long long id;
  if (driver.StreamGetId != nullptr && driver.StreamGetId(stream, &id) == CUDA_SUCCESS) return id;
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  if (handle == kPerThreadStream) {
    static thread_local const uint64_t thread = static_cast<uint64_t>(syscall(SYS_gettid));
    return kThreadBit | thread;
  }
  return handle == 0 ? kLegacyStream : handle;
}

}  // namespace mccs::shim
