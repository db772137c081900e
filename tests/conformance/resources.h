// What a test makes and the suite cleans up: communicators, streams, memory, gates.
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

// The communicators that one rank has at the moment.
//
// THREAD: any. The watchdog aborts them when the rank does not come back from a call.
class Communicators {
 public:
  ncclComm_t world();
  void SetWorld(ncclComm_t comm);
  // Beside the world.
  void Add(ncclComm_t comm);
  // No longer ours to abort.
  void LetGo(ncclComm_t comm);
  // Aborts those of the test; the world, too, if it may have been hurt.
  void AbortAll(bool with_world);

 private:
  std::mutex mutex_;
  ncclComm_t world_ = nullptr;
  std::vector<ncclComm_t> others_;
};

// Memory of one device. Freed with the test.
struct DeviceBuffer {
  std::byte* data = nullptr;
  size_t bytes = 0;

  template <typename T>
  T* As(size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data + byte_offset);
  }
};

// Holds back a stream until it is opened, with a host function that waits.
//
// LIFETIME: shared with the function, which may run later than the test.
class Gate {
 public:
  void Open() { state_->open.store(true, std::memory_order_release); }
  cudaError_t HoldBack(cudaStream_t stream);

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

  // Null when CUDA refuses.
  cudaStream_t NewStream(unsigned flags);
  DeviceBuffer NewBuffer(size_t bytes);
  // Ordinary memory of the host, which stays until the device is through with it, also when the
  // test ends early. Page-aligned; unregistered at the end where it was registered.
  std::byte* NewHostMemory(size_t bytes);
  Gate* NewGate() { return gates_.emplace_back(std::make_unique<Gate>()).get(); }

  void OpenGates();
  // REQUIRES: nothing waits for ever on the streams: freeing memory waits for the device.
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
