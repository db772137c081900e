#include "tests/unit/shim/fake_cuda.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "proto/fence_page.h"
#include "tests/unit/shim/fake_cuda_world.h"

namespace mccs::fake_cuda {

World& TheWorld() {
  static World* world = new World;
  return *world;
}

namespace {

// Trivial: a program may call CUDA while its threads and itself end.
class ContextStack {
 public:
  bool empty() const { return depth_ == 0; }
  CUcontext back() const { return contexts_[depth_ - 1]; }
  void push_back(CUcontext context) { contexts_[depth_++] = context; }
  void pop_back() { --depth_; }
  void Reset(CUcontext context) {
    contexts_[0] = context;
    depth_ = 1;
  }

 private:
  CUcontext contexts_[16];
  size_t depth_;
};
thread_local ContextStack context_stack;

CUcontext ContextOf(int device) { return reinterpret_cast<CUcontext>(uintptr_t{0x1000} + device); }

const std::pair<const uint64_t, Memory>* Locate(World& world, CUdeviceptr address) {
  auto it = world.memory.upper_bound(address);
  if (it == world.memory.begin()) return nullptr;
  --it;
  return address - it->first < it->second.bytes ? &*it : nullptr;
}

void* Add(size_t bytes, Kind kind) {
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0, bytes);
  RegisterMemory(memory, bytes, kind);
  return memory;
}

Stream& Alive(World& world, CUstream handle) {
  if (handle == reinterpret_cast<CUstream>(0x1)) handle = nullptr;  // both are the legacy stream
  auto& streams = world.streams[handle];
  if (streams.empty()) streams.push_back({.id = world.next_id++, .alive = true, .queue = {}});
  return streams.back();
}

bool AdvanceOne(Stream& stream) {
  bool moved = false;
  while (!stream.queue.empty()) {
    const Queued next = stream.queue.front();
    auto* line = reinterpret_cast<wire::FenceLine*>(next.address);
    if (next.kind == Queued::kWrite) {
      wire::SignalFence(*line, next.value);
    } else if (next.kind == Queued::kCopy) {
      std::memcpy(reinterpret_cast<void*>(next.address), reinterpret_cast<void*>(next.source),
                  next.value);
    } else if (next.kind == Queued::kEvent) {
      reinterpret_cast<Event*>(next.address)->reached = next.value;
    } else if (next.kind == Queued::kWrite32) {
      std::atomic_ref(*reinterpret_cast<uint32_t*>(next.address))
          .store(static_cast<uint32_t>(next.value));
    } else if (static_cast<int64_t>(line->value.load() - next.value) < 0) {
      return moved;
    }
    stream.queue.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace

CUresult Enqueue(CUstream handle, Queued what) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  if (world.stream_error != CUDA_SUCCESS) return world.stream_error;
  if (const auto capture = world.captures.find(handle); capture != world.captures.end()) {
    capture->second->nodes.push_back(what);
    return CUDA_SUCCESS;
  }
  Alive(world, handle).queue.push_back(what);
  return CUDA_SUCCESS;
}

void Reset() {
  ResetVirtualMemory();  // first, because its lock is taken before the world's
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  for (auto& [address, memory] : world.memory) {
    if (memory.kind != Kind::kVirtual) std::free(reinterpret_cast<void*>(address));
  }
  world.memory.clear();
  world.streams.clear();
  world.stream_error = CUDA_SUCCESS;
  world.allocation_error = CUDA_SUCCESS;
  world.captures.clear();
  world.graphs.clear();
  context_stack.Reset(ContextOf(0));
}

void SetDevice(int ordinal) { context_stack.Reset(ContextOf(ordinal)); }
int GetDevice() {
  return context_stack.empty()
             ? 0
             : static_cast<int>(reinterpret_cast<uintptr_t>(context_stack.back()) - 0x1000);
}

void* Alloc(size_t bytes) { return Add(bytes, Kind::kDevice); }
void* AllocHost(size_t bytes) { return Add(bytes, Kind::kHost); }
void* AllocManaged(size_t bytes) { return Add(bytes, Kind::kManaged); }
void* AllocPool(size_t bytes) { return Add(bytes, Kind::kPool); }
void FailAllocations(CUresult error) { TheWorld().allocation_error = error; }

size_t allocations() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return world.memory.size();
}

void RegisterMemory(void* memory, size_t bytes, Kind kind) {
  World& world = TheWorld();
  const int device = GetDevice();
  std::lock_guard lock(world.mutex);
  world.memory[reinterpret_cast<uint64_t>(memory)] = {bytes, device, kind, world.next_id++};
}

void UnregisterMemory(void* memory) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.memory.erase(reinterpret_cast<uint64_t>(memory));
}

void Free(void* memory) {
  UnregisterMemory(memory);
  std::free(memory);
}

void Reallocate(void* memory) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.memory.at(reinterpret_cast<uint64_t>(memory)).id = world.next_id++;
}

CUstream MakeStream() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  CUstream handle;
  if (world.free_handles.empty()) {
    handle = reinterpret_cast<CUstream>(uintptr_t{0x10000} + 64 * world.next_id++);
  } else {
    handle = world.free_handles.back();
    world.free_handles.pop_back();
  }
  world.streams[handle].push_back({.id = world.next_id++, .alive = true, .queue = {}});
  return handle;
}

void DestroyStream(CUstream stream) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.streams.at(stream).back().alive = false;
  world.free_handles.push_back(stream);
}

std::vector<Queued> Pending(CUstream stream) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  const Stream& alive = Alive(world, stream);
  return {alive.queue.begin(), alive.queue.end()};
}

bool Advance() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  bool moved = false;
  for (auto& [handle, streams] : world.streams) {
    for (Stream& stream : streams) moved |= AdvanceOne(stream);
  }
  return moved;
}

bool Synchronize(CUstream stream) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < limit) {
    const bool moved = Advance();
    if (Pending(stream).empty()) return true;
    if (!moved) std::this_thread::yield();
  }
  return false;
}

void SynchronizeWithStreams() { std::lock_guard lock(TheWorld().mutex); }

void FailStreamCalls(CUresult error) { TheWorld().stream_error = error; }

size_t registered_host_ranges() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return world.registered.size();
}

}  // namespace mccs::fake_cuda

using mccs::fake_cuda::context_stack;
using mccs::fake_cuda::ContextOf;
using mccs::fake_cuda::Enqueue;
using mccs::fake_cuda::Event;
using mccs::fake_cuda::kDevices;
using mccs::fake_cuda::Kind;
using mccs::fake_cuda::Locate;
using mccs::fake_cuda::Memory;
using mccs::fake_cuda::Queued;
using mccs::fake_cuda::TheWorld;
using mccs::fake_cuda::World;

// cuda.h's macros give these their real names (…_v2).
extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_OF_THE_FAKE";
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_stack.empty() ? nullptr : context_stack.back();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  context_stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  *context = context_stack.back();
  context_stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = mccs::fake_cuda::GetDevice();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, 0, sizeof(*uuid));
  uuid->bytes[15] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* bus_id, int length, CUdevice device) {
  snprintf(bus_id, static_cast<size_t>(length), "0000:%02x:00.0", device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return Enqueue(stream, {Queued::kWrite, address, value});
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return Enqueue(stream, {Queued::kWrite32, address, value});
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return Enqueue(stream, {Queued::kWait, address, value});
}

CUresult cuStreamSynchronize(CUstream stream) {
  return mccs::fake_cuda::Synchronize(stream) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  *id = mccs::fake_cuda::Alive(world, stream).id;
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.registered[address] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* address) {
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return world.registered.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_address, void* address, unsigned) {
  *device_address = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  const auto* found = Locate(world, address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Memory& memory = found->second;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = memory.id;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = memory.kind == Kind::kManaged ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = memory.device;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) =
          memory.kind == Kind::kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  const auto* found = Locate(world, address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *base = found->first;
  *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (TheWorld().allocation_error != CUDA_SUCCESS) return TheWorld().allocation_error;
  *address = reinterpret_cast<CUdeviceptr>(mccs::fake_cuda::Alloc(bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  {
    World& world = TheWorld();
    std::lock_guard lock(world.mutex);
    const auto found = world.memory.find(address);
    if (found == world.memory.end() || found->second.kind != Kind::kDevice) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  mccs::fake_cuda::Free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}

// The fake daemon is in the same process, so an address is a sufficient handle.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  {
    World& world = TheWorld();
    std::lock_guard lock(world.mutex);
    const auto* found = Locate(world, address);
    if (found == nullptr || found->second.kind != Kind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  }
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &address, sizeof(address));
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Enqueue(stream, {Queued::kCopy, to, bytes, from});
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  *event = reinterpret_cast<CUevent>(&world.events.emplace_back());
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  auto* const recorded = reinterpret_cast<Event*>(event);
  return Enqueue(stream,
                 {Queued::kEvent, reinterpret_cast<CUdeviceptr>(event), ++recorded->recorded});
}

CUresult cuEventQuery(CUevent event) {
  std::lock_guard lock(TheWorld().mutex);
  const auto* const asked = reinterpret_cast<const Event*>(event);
  return asked->reached >= asked->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }

}  // extern "C"
