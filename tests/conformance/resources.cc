#include "conformance/resources.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

namespace conformance {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr auto kGatePause = std::chrono::microseconds(200);
// A gate that is never opened must not block the device forever.
constexpr auto kGateLimit = std::chrono::seconds(100);

constexpr auto kDrainLimit = std::chrono::seconds(2);

}  // namespace

ncclComm_t Communicators::world() {
  std::lock_guard lock(mutex_);
  return world_;
}

void Communicators::SetWorld(ncclComm_t comm) {
  std::lock_guard lock(mutex_);
  world_ = comm;
}

void Communicators::Add(ncclComm_t comm) {
  std::lock_guard lock(mutex_);
  others_.push_back(comm);
}

void Communicators::Remove(ncclComm_t comm) {
  std::lock_guard lock(mutex_);
  std::erase(others_, comm);
}

void Communicators::AbortAll(bool with_world) {
  std::vector<ncclComm_t> all;
  {
    std::lock_guard lock(mutex_);
    all.swap(others_);
    if (with_world && world_ != nullptr) all.push_back(std::exchange(world_, nullptr));
  }
  for (ncclComm_t comm : all) ncclCommAbort(comm);
}

cudaError_t Gate::Block(cudaStream_t stream) {
  auto* state = new std::shared_ptr<State>(state_);
  cudaError_t error = cudaLaunchHostFunc(stream, AwaitOpen, state);
  if (error != cudaSuccess) delete state;
  return error;
}

void Gate::AwaitOpen(void* state) {
  const std::unique_ptr<std::shared_ptr<State>> own(static_cast<std::shared_ptr<State>*>(state));
  const auto deadline = std::chrono::steady_clock::now() + kGateLimit;
  while (!(*own)->open.load(std::memory_order_acquire) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kGatePause);
  }
}

cudaStream_t Resources::NewStream(unsigned flags) {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, flags) != cudaSuccess) return nullptr;
  streams_.push_back(stream);
  return stream;
}

DeviceBuffer Resources::NewBuffer(size_t bytes) {
  void* data = nullptr;
  if (cudaMalloc(&data, std::max<size_t>(bytes, 1)) != cudaSuccess) return {};
  buffers_.push_back(static_cast<std::byte*>(data));
  return {static_cast<std::byte*>(data), bytes};
}

std::byte* Resources::NewHostMemory(size_t bytes) {
  const size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, pages * kPageBytes));
  if (memory != nullptr) host_memory_.push_back(memory);
  return memory;
}

void Resources::OpenGates() {
  for (const auto& gate : gates_) gate->Open();
}

void Resources::FreeAll() {
  cudaSetDevice(device_);
  // Enqueued work may still use the memory. A failed test has ended its communicators before. If a
  // stream is blocked nevertheless, freeing its memory does no additional harm.
  const auto deadline = std::chrono::steady_clock::now() + kDrainLimit;
  for (cudaStream_t stream : streams_) {
    while (cudaStreamQuery(stream) == cudaErrorNotReady &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kGatePause);
    }
  }
  for (cudaStream_t stream : std::exchange(streams_, {})) cudaStreamDestroy(stream);
  for (std::byte* buffer : std::exchange(buffers_, {})) cudaFree(buffer);
  for (std::byte* memory : std::exchange(host_memory_, {})) {
    cudaHostUnregister(memory);
    std::free(memory);
  }
  cudaGetLastError();  // clears the error for memory that was not registered
}

}  // namespace conformance
