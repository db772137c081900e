// The layer of test_cuda.h between the emulation and its callers: its records, failures and
// pretences, and its functions, which have the driver's names.

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string_view>

#include "base/check.h"
#include "tests/unit/shim/test_cuda_world.h"

namespace mccs::test_cuda {
namespace {

// A word that streams wait for in HoldCopiesTo; never freed.
uint32_t* Gate() {
  static auto* const gate = [] {
    void* memory = nullptr;
    MCCS_CHECK(cuMemHostAlloc(&memory, sizeof(uint32_t), CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS);
    return static_cast<uint32_t*>(memory);
  }();
  return gate;
}

}  // namespace

std::vector<Enqueued> EnqueuedOn(CUstream stream) {
  return WithWorld([=](World& world) { return world.enqueued[stream]; });
}

void HoldCopiesTo(const void* address) {
  std::atomic_ref(*Gate()).store(0);
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().held_destination = reinterpret_cast<CUdeviceptr>(address);
  TheWorld().has_held_copy = false;
}

bool HasHeldCopy() {
  return WithWorld([](World& world) { return world.has_held_copy; });
}

void ReleaseCopies() {
  WithWorld([](World& world) { world.held_destination = 0; });
  std::atomic_ref(*Gate()).store(1);
}

size_t allocations() {
  return WithWorld([](World& world) { return world.allocations.size(); });
}

size_t reservations() {
  return WithWorld([](World& world) { return world.reservations.size(); });
}

size_t registered_host_ranges() {
  return WithWorld([](World& world) { return world.registered; });
}

int kernels_prepared() {
  return WithWorld([](World& world) { return world.kernels_prepared; });
}

std::vector<std::string> images_loaded() {
  return WithWorld([](World& world) { return world.images_loaded; });
}

int requested_handle_types() {
  return WithWorld([](World& world) { return world.requested_handle_types; });
}

void Fail(const std::string& function, CUresult error) {
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().failures.clear();
  TheWorld().failures[function] = error;
}

void SetAttribute(CUdevice_attribute attribute, int value) {
  WithWorld([=](World& world) { world.attributes[attribute] = value; });
}

void PermitFabric(bool permitted) {
  WithWorld([=](World& world) { world.fabric_permitted = permitted; });
}

void SeparateOddAndEvenGpus() {
  WithWorld([](World& world) { world.gpus_separated = true; });
}

void RenewStreamId(CUstream stream) {
  constexpr unsigned long long kUnused = 1ull << 62;
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().stream_ids[stream] = kUnused + TheWorld().stream_ids.size();
}

namespace {

CUresult FailureOf(std::string_view function) {
  std::lock_guard lock(TheWorld().mutex);
  const auto found = TheWorld().failures.find(function);
  return found == TheWorld().failures.end() ? CUDA_SUCCESS : found->second;
}

CUresult Record(CUresult result, CUstream stream, const Enqueued& what) {
  if (stream == CU_STREAM_LEGACY) stream = nullptr;
  std::lock_guard lock(TheWorld().mutex);
  if (result == CUDA_SUCCESS) TheWorld().enqueued[stream].push_back(what);
  return result;
}

// A user object of the program, and the destructor that the layer gives to CUDA instead of its own.
struct UserObject {
  CUhostFn destroy;
  void* pointer;
};

void DestroyUserObject(void* wrapped) {
  auto* const object = static_cast<UserObject*>(wrapped);
  object->destroy(object->pointer);
  delete object;
  WithWorld([](World& world) { ++world.destroyed_objects; });
}

}  // namespace
}  // namespace mccs::test_cuda

// ---- The layer ---------------------------------------------------------------------------------

using mccs::test_cuda::Enqueued;
using mccs::test_cuda::FailureOf;
using mccs::test_cuda::Record;
using mccs::test_cuda::TheWorld;
using mccs::test_cuda::WithWorld;
using mccs::test_cuda::World;

// The emulation's function. cuda.h maps some names to their newest version.
#define MCCS_STRING2(name) #name
#define MCCS_STRING(name) MCCS_STRING2(name)
#define MCCS_NEXT(name)                                                         \
  ([] {                                                                         \
    static const auto next =                                                    \
        reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, MCCS_STRING(name))); \
    return next;                                                                \
  }())

// Returns from the layer's function `name` if a test made it fail.
#define MCCS_FAIL_IF_REQUESTED(name) \
  if (const CUresult error = FailureOf(#name); error != CUDA_SUCCESS) return error

extern "C" {

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned flags) {
  MCCS_FAIL_IF_REQUESTED(cuStreamWriteValue64);
  return Record(MCCS_NEXT(cuStreamWriteValue64)(stream, address, value, flags), stream,
                {.kind = Enqueued::kWrite, .address = address, .value = value});
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned flags) {
  return Record(MCCS_NEXT(cuStreamWriteValue32)(stream, address, value, flags), stream,
                {.kind = Enqueued::kWrite32, .address = address, .value = value});
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned flags) {
  return Record(MCCS_NEXT(cuStreamWaitValue64)(stream, address, value, flags), stream,
                {.kind = Enqueued::kWait, .address = address, .value = value});
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra) {
  MCCS_FAIL_IF_REQUESTED(cuLaunchKernel);
  return Record(MCCS_NEXT(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y,
                                          block_z, shared_bytes, stream, parameters, extra),
                stream,
                {.kind = Enqueued::kWait,
                 .address = *static_cast<CUdeviceptr*>(parameters[0]),
                 .value = *static_cast<uint64_t*>(parameters[1]),
                 .by_kernel = true});
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (WithWorld([=](World& world) { return world.held_destination == to; })) {
    cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(mccs::test_cuda::Gate()), 1,
                        CU_STREAM_WAIT_VALUE_EQ);
    WithWorld([](World& world) { world.has_held_copy = true; });
  }
  return Record(MCCS_NEXT(cuMemcpyAsync)(to, from, bytes, stream), stream,
                {.kind = Enqueued::kCopy, .address = to, .value = bytes, .source = from});
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return Record(MCCS_NEXT(cuEventRecord)(event, stream), stream, {.kind = Enqueued::kEvent});
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  {
    std::lock_guard lock(TheWorld().mutex);
    const auto renewed = TheWorld().stream_ids.find(stream);
    if (renewed != TheWorld().stream_ids.end()) {
      *id = renewed->second;
      return CUDA_SUCCESS;
    }
  }
  return MCCS_NEXT(cuStreamGetId)(stream, id);
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  MCCS_FAIL_IF_REQUESTED(cuMemAlloc);
  const CUresult result = MCCS_NEXT(cuMemAlloc)(address, bytes);
  std::lock_guard lock(TheWorld().mutex);
  if (result == CUDA_SUCCESS) TheWorld().allocations.insert(*address);
  return result;
}

CUresult cuMemFree(CUdeviceptr address) {
  WithWorld([=](World& world) {
    world.allocations.erase(address);
    world.memory.erase(reinterpret_cast<void*>(address));
  });
  return MCCS_NEXT(cuMemFree)(address);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  MCCS_FAIL_IF_REQUESTED(cuIpcOpenMemHandle);
  return MCCS_NEXT(cuIpcOpenMemHandle)(address, handle, flags);
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  MCCS_FAIL_IF_REQUESTED(cuMemGetHandleForAddressRange);
  return MCCS_NEXT(cuMemGetHandleForAddressRange)(handle, address, bytes, type, flags);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  MCCS_FAIL_IF_REQUESTED(cuDevicePrimaryCtxRetain);
  return MCCS_NEXT(cuDevicePrimaryCtxRetain)(context, device);
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned flags) {
  const CUresult result = MCCS_NEXT(cuMemHostRegister)(address, bytes, flags);
  std::lock_guard lock(TheWorld().mutex);
  if (result == CUDA_SUCCESS) ++TheWorld().registered;
  return result;
}

CUresult cuMemHostUnregister(void* address) {
  const CUresult result = MCCS_NEXT(cuMemHostUnregister)(address);
  std::lock_guard lock(TheWorld().mutex);
  if (result == CUDA_SUCCESS) --TheWorld().registered;
  return result;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags flags) {
  MCCS_FAIL_IF_REQUESTED(cuMemGetAllocationGranularity);
  CUmemAllocationProp known = *properties;
  known.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(known.requestedHandleTypes &
                                                                      ~CU_MEM_HANDLE_TYPE_FABRIC);
  return MCCS_NEXT(cuMemGetAllocationGranularity)(bytes, &known, flags);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  MCCS_FAIL_IF_REQUESTED(cuMemCreate);
  CUmemAllocationProp known = *properties;
  {
    std::lock_guard lock(TheWorld().mutex);
    TheWorld().requested_handle_types = known.requestedHandleTypes;
    if ((known.requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0 &&
        !TheWorld().fabric_permitted) {
      return CUDA_ERROR_NOT_PERMITTED;
    }
  }
  known.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(known.requestedHandleTypes &
                                                                      ~CU_MEM_HANDLE_TYPE_FABRIC);
  return MCCS_NEXT(cuMemCreate)(handle, bytes, &known, flags);
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  MCCS_FAIL_IF_REQUESTED(cuMemAddressReserve);
  const CUresult result = MCCS_NEXT(cuMemAddressReserve)(address, bytes, alignment, hint, flags);
  std::lock_guard lock(TheWorld().mutex);
  if (result == CUDA_SUCCESS) TheWorld().reservations.insert(*address);
  return result;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  WithWorld([=](World& world) { world.reservations.erase(address); });
  return MCCS_NEXT(cuMemAddressFree)(address, bytes);
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  MCCS_FAIL_IF_REQUESTED(cuMemMap);
  return MCCS_NEXT(cuMemMap)(address, bytes, offset, handle, flags);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  MCCS_FAIL_IF_REQUESTED(cuMemSetAccess);
  return MCCS_NEXT(cuMemSetAccess)(address, bytes, access, count);
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  {
    std::lock_guard lock(TheWorld().mutex);
    const auto pretended = TheWorld().attributes.find(attribute);
    if (pretended != TheWorld().attributes.end()) {
      *value = pretended->second;
      return CUDA_SUCCESS;
    }
  }
  return MCCS_NEXT(cuDeviceGetAttribute)(value, attribute, device);
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  const CUresult result = MCCS_NEXT(cuDeviceCanAccessPeer)(can, device, peer);
  std::lock_guard lock(TheWorld().mutex);
  if (TheWorld().gpus_separated && device % 2 != peer % 2) *can = 0;
  return result;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options,
                           void** values, unsigned count, CUlibraryOption* library_options,
                           void** library_values, unsigned library_count) {
  MCCS_FAIL_IF_REQUESTED(cuLibraryLoadData);
  WithWorld([=](World& world) {
    world.images_loaded.emplace_back(static_cast<const char*>(code), mccs::test_cuda::kImageStart);
  });
  return MCCS_NEXT(cuLibraryLoadData)(library, code, options, values, count, library_options,
                                      library_values, library_count);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  MCCS_FAIL_IF_REQUESTED(cuKernelGetFunction);
  WithWorld([](World& world) { ++world.kernels_prepared; });
  return MCCS_NEXT(cuKernelGetFunction)(function, kernel);
}

CUresult cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy,
                            unsigned references, unsigned flags) {
  auto* const wrapped = new mccs::test_cuda::UserObject{destroy, pointer};
  return MCCS_NEXT(cuUserObjectCreate)(object, wrapped, &mccs::test_cuda::DestroyUserObject,
                                       references, flags);
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                 unsigned flags) {
  WithWorld([=](World& world) { ++world.objects[graph]; });
  return MCCS_NEXT(cuGraphRetainUserObject)(graph, object, count, flags);
}

}  // extern "C"
