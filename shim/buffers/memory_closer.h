// Closes memory that this process has opened for its kernels, in a thread of its own: CUDA may wait
// for the kernels of the GPU meanwhile, and those may wait for the rank that frees the memory.
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_MEMORY_CLOSER_H_
#define MCCS_SHIM_BUFFERS_MEMORY_CLOSER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "base/address_range.h"
#include "base/shared_region.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class MemoryCloser {
 public:
  // LIFETIME: `driver` is never destroyed: the thread may outlive this.
  explicit MemoryCloser(const DriverApi& driver) : state_(std::make_shared<State>(driver)) {}
  ~MemoryCloser();
  MemoryCloser(const MemoryCloser&) = delete;

  // Memory of another process or of the daemon, one of three kinds; empty: the process's own.
  struct Opened {
    bool empty() const { return ipc == 0 && mapped.bytes == 0 && host == nullptr; }
    CUcontext context = nullptr;                   // in which it was opened
    CUdeviceptr ipc = 0;                           // of cuIpcOpenMemHandle, or:
    AddressRange mapped = {};                      // of MapDescriptor, or:
    std::shared_ptr<SharedRegion> host = nullptr;  // of RegisterHostMemory
  };
  // Closes the memory, and waits for that, kLimit at most: then its owner need not wait longer, and
  // its memory stays allocated until it is closed.
  static constexpr std::chrono::milliseconds kLimit{50};
  void Close(const Opened& memory);

 private:
  struct State {
    explicit State(const DriverApi& cuda) : driver(cuda) {}
    const DriverApi& driver;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Opened> opened;
    uint64_t added = 0;
    uint64_t closed = 0;
    bool started = false;
    bool ended = false;
  };
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_MEMORY_CLOSER_H_
