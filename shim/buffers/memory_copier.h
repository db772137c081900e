// Copies of the daemon's requests (CopyMemory in proto/shim_control.h): from memory of the host
// into this process's memory on a GPU, in a thread and streams of its own, which wait for no stream
// of the program (shim/cuda/own_stream.h).
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_
#define MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class MemoryCopier {
 public:
  struct Copy {
    CUcontext context = nullptr;
    CUdeviceptr to = 0;
    CUdeviceptr from = 0;
    uint64_t bytes = 0;
    std::function<void(const absl::Status&)> done;  // called by the thread
  };

  // LIFETIME: `driver` is never destroyed: the thread may outlive this.
  explicit MemoryCopier(const DriverApi& driver) : state_(std::make_shared<State>(driver)) {}
  // Waits for a call of `done` that is in progress; none follows.
  ~MemoryCopier();
  MemoryCopier(const MemoryCopier&) = delete;

  void Add(Copy copy);
  // Waits until no copy is queued or running, `limit` at most.
  void AwaitIdle(std::chrono::milliseconds limit);

 private:
  struct State {
    explicit State(const DriverApi& cuda) : driver(cuda) {}
    const DriverApi& driver;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Copy> copies;
    bool working = false;  // on the copies taken last
    bool started = false;
    bool ended = false;
    std::mutex done_mutex;  // held during calls of `done`
    bool done_ended = false;
    std::map<CUcontext, CUstream> streams;  // the thread's
  };
  static void Run(const std::shared_ptr<State>& state);
  static absl::Status Enqueue(State& state, const Copy& copy, CUstream* stream);

  const std::shared_ptr<State> state_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_
