// Resources of a test, which the suite releases: communicators, streams, memory, gates.
#ifndef TESTS_CONFORMANCE_RESOURCES_H_
#define TESTS_CONFORMANCE_RESOURCES_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"
#include "nccl.h"

namespace conformance {

// The current communicators of one rank.
//
// THREAD: any. The watchdog aborts them if the rank is blocked in a call.
class Communicators {
 public:
  ncclComm_t world();
  void SetWorld(ncclComm_t comm);
  // Adds a communicator besides the world.
  void Add(ncclComm_t comm);
  // Removes a communicator that is not to be aborted.
  void Remove(ncclComm_t comm);
  // Aborts the communicators of the test, and the world if it may be damaged.
  void AbortAll(bool with_world);

 private:
  std::mutex mutex_;
  ncclComm_t world_ = nullptr;
  std::vector<ncclComm_t> others_;
};

// Memory of one device. Freed at the end of the test.
struct DeviceBuffer {
  std::byte* data = nullptr;
  size_t bytes = 0;

  template <typename T>
  T* As(size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data + byte_offset);
  }
};

// Blocks a stream, by a host function that waits, until it is opened.
//
// LIFETIME: shared with the function, which may outlive the test.
class Gate {
 public:
  void Open() { state_->open.store(true, std::memory_order_release); }
  cudaError_t Block(cudaStream_t stream);

 private:
  struct State {
    std::atomic<bool> open{false};
  };
  static void AwaitOpen(void* state);

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class Resources {
 public:
  explicit Resources(int device) : device_(device) {}
  ~Resources() { FreeAll(); }
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  // Null if CUDA rejects.
  cudaStream_t NewStream(unsigned flags);
  DeviceBuffer NewBuffer(size_t bytes);
  // Ordinary host memory. It stays until the device no longer uses it, also if the test ends early.
  // Page-aligned; unregistered at the end if it was registered.
  std::byte* NewHostMemory(size_t bytes);
  Gate* NewGate() { return gates_.emplace_back(std::make_unique<Gate>()).get(); }

  void OpenGates();
  // REQUIRES: no stream is blocked forever: freeing memory waits for the device.
  void FreeAll();

 private:
  const int device_;
  std::vector<cudaStream_t> streams_;
  std::vector<std::byte*> buffers_;
  std::vector<std::byte*> host_memory_;
  std::vector<std::unique_ptr<Gate>> gates_;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_RESOURCES_H_
