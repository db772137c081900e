// The helpers of test_cuda.h.

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "tests/unit/eventually.h"
#include "tests/unit/shim/test_cuda_world.h"

namespace mccs::test_cuda {
namespace {

void Check(CUresult result) { MCCS_CHECK(result == CUDA_SUCCESS); }

std::atomic<bool> used{false};

CUcontext ContextOf(int device) {
  used = true;
  CUcontext context = nullptr;
  Check(cuInit(0));
  Check(cuDevicePrimaryCtxRetain(&context, device));
  return context;
}

void EnsureContext() {
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) SetDevice(0);
}

// Runs `work` with each device's context.
template <typename Work>
void OnEachDevice(Work work) {
  for (int device = 0; device < kDevices; ++device) {
    Check(cuCtxPushCurrent(ContextOf(device)));
    work();
    Check(cuCtxPopCurrent(nullptr));
  }
}

void* Added(void* memory, size_t bytes, Kind kind) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.memory[memory] = {bytes, kind};
  return memory;
}

void Release(void* memory, Kind kind) {
  Check(kind == Kind::kHost ? cuMemFreeHost(memory)
                            : cuMemFree(reinterpret_cast<CUdeviceptr>(memory)));
}

int64_t UsedBytes() {
  if (!used) return 0;
  int64_t sum = 0;
  OnEachDevice([&sum] {
    size_t free = 0;
    size_t total = 0;
    Check(cuMemGetInfo(&free, &total));
    sum += static_cast<int64_t>(total - free);
  });
  return sum;
}

}  // namespace

void Reset() {
  World& world = TheWorld();
  std::map<void*, Memory> memory;
  std::map<std::byte*, size_t> chunks;
  {
    std::lock_guard lock(world.mutex);
    memory = std::exchange(world.memory, {});
    chunks = world.chunks;
    world.failures.clear();
    world.held_destination = 0;
  }
  if (used) SetDevice(0);
  for (const auto& [address, allocated] : memory) Release(address, allocated.kind);
  for (const auto& [place, bytes] : chunks) Unmap(place);
  const int64_t used_now = UsedBytes();
  std::lock_guard lock(world.mutex);
  world.enqueued.clear();
  world.images_loaded.clear();
  world.allocations.clear();
  world.reservations.clear();
  world.registered = 0;
  world.attributes.clear();
  world.fabric_permitted = true;
  world.gpus_separated = false;
  world.stream_ids.clear();
  world.used_before = used_now;
}

void SetDevice(int ordinal) { Check(cuCtxSetCurrent(ContextOf(ordinal))); }

int GetDevice() {
  CUdevice device = 0;
  EnsureContext();
  Check(cuCtxGetDevice(&device));
  return device;
}

void* Alloc(size_t bytes) {
  EnsureContext();
  CUdeviceptr address = 0;
  Check(cuMemAlloc(&address, bytes));
  return Added(reinterpret_cast<void*>(address), bytes, Kind::kDevice);
}

void* AllocHost(size_t bytes) {
  EnsureContext();
  void* memory = nullptr;
  Check(cuMemHostAlloc(&memory, bytes, 0));
  return Added(memory, bytes, Kind::kHost);
}

void* AllocManaged(size_t bytes) {
  EnsureContext();
  CUdeviceptr address = 0;
  Check(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
  return Added(reinterpret_cast<void*>(address), bytes, Kind::kPool);
}

void* AllocPool(size_t bytes) {
  static const CUstream stream = MakeStream();
  CUdeviceptr address = 0;
  Check(cuMemAllocAsync(&address, bytes, stream));
  Check(cuStreamSynchronize(stream));
  return Added(reinterpret_cast<void*>(address), bytes, Kind::kPool);
}

void Free(void* memory) {
  const Kind kind =
      WithWorld([=](World& world) { return world.memory.extract(memory).mapped().kind; });
  Release(memory, kind);
}

// Other allocations that are found first stay, so that the address is found at last.
void Reallocate(void* memory) {
  const size_t bytes = WithWorld([=](World& world) { return world.memory.at(memory).bytes; });
  Free(memory);
  constexpr int kAttempts = 1000;
  for (int i = 0; i < kAttempts; ++i) {
    if (Alloc(bytes) == memory) return;
  }
  MCCS_CHECK(false);
}

std::byte* Reserve(size_t bytes) {
  EnsureContext();
  CUdeviceptr address = 0;
  Check(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return reinterpret_cast<std::byte*>(address);
}

void Map(std::byte* place, size_t bytes, bool shareable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = GetDevice()};
  if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  Check(cuMemCreate(&handle, bytes, &properties, 0));
  const auto address = reinterpret_cast<CUdeviceptr>(place);
  Check(cuMemMap(address, bytes, 0, handle, 0));
  Check(cuMemRelease(handle));
  const CUmemAccessDesc access{.location = properties.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  Check(cuMemSetAccess(address, bytes, &access, 1));
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().chunks[place] = bytes;
}

void Unmap(std::byte* place) {
  // One that ncclMemAlloc mapped is a single granule or several: its extent is CUDA's.
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EnsureContext();
  Check(cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(place)));
  Check(cuMemUnmap(base, bytes));
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().chunks.erase(place);
}

CUmemAllocationProp PropertiesAt(const void* address) {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  Check(cuMemRetainAllocationHandle(&handle, const_cast<void*>(address)));
  Check(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  Check(cuMemRelease(handle));
  return properties;
}

std::vector<int> DevicesWithAccess(const void* address) {
  std::vector<int> devices;
  for (int device = 0; device < kDevices; ++device) {
    const CUmemLocation location{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long access = 0;
    Check(cuMemGetAccess(&access, &location, reinterpret_cast<CUdeviceptr>(address)));
    if (access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) devices.push_back(device);
  }
  return devices;
}

CUstream MakeStream() {
  EnsureContext();
  CUstream stream = nullptr;
  Check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

bool IsBusy(CUstream stream) {
  EnsureContext();
  bool busy = false;
  const auto ask = [&] { busy |= cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; };
  if (stream == nullptr) {
    OnEachDevice(ask);
  } else {
    ask();
  }
  return busy;
}

bool Synchronize(CUstream stream) {
  return Eventually([stream] { return !IsBusy(stream); });
}

void BeginCapture(CUstream stream) {
  Check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

void JoinCapture(CUstream joining, CUstream captured) {
  CUevent event = nullptr;
  Check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Check(cuEventRecord(event, captured));
  Check(cuStreamWaitEvent(joining, event, 0));
  Check(cuEventDestroy(event));
}

CUgraph EndCapture(CUstream stream) {
  CUgraph graph = nullptr;
  Check(cuStreamEndCapture(stream, &graph));
  return graph;
}

void Launch(CUgraph graph, CUstream stream) {
  CUgraphExec executable = WithWorld([=](World& world) { return world.executables[graph]; });
  if (executable == nullptr) {
    Check(cuGraphInstantiate(&executable, graph, 0));
    WithWorld([=](World& world) { world.executables[graph] = executable; });
  }
  Check(cuGraphLaunch(executable, stream));
}

void DestroyGraph(CUgraph graph) {
  World& world = TheWorld();
  CUgraphExec executable = nullptr;
  int expected = 0;
  {
    std::lock_guard lock(world.mutex);
    if (const auto launched = world.executables.extract(graph)) executable = launched.mapped();
    expected = world.destroyed_objects;
    if (const auto objects = world.objects.extract(graph)) expected += objects.mapped();
  }
  if (executable != nullptr) Check(cuGraphExecDestroy(executable));
  Check(cuGraphDestroy(graph));
  MCCS_CHECK(Eventually(
      [=] { return WithWorld([=](World& now) { return now.destroyed_objects >= expected; }); }));
}

size_t NodesOf(CUgraph graph) {
  size_t nodes = 0;
  Check(cuGraphGetNodes(graph, nullptr, &nodes));
  return nodes;
}

int64_t used_bytes() {
  const int64_t now = UsedBytes();
  std::lock_guard lock(TheWorld().mutex);
  return now - TheWorld().used_before;
}

}  // namespace mccs::test_cuda
