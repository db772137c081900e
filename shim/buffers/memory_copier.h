// Copies that the daemon requests (CopyMemory in proto/shim_control.h): from host memory into this
// process's memory on a GPU, in a thread and streams of their own, which wait for no stream of the
// program (shim/cuda/own_stream.h).
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_
#define MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "shim/buffers/driver_thread.h"
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
    std::function<void()> act = {};                 // of AfterCopies; then there is no copy
  };

  // LIFETIME: `driver` is never destroyed: the thread may outlive this.
  explicit MemoryCopier(const DriverApi& driver) : MemoryCopier(std::make_shared<State>(driver)) {}
  // Waits for a call of `done` that is in progress; none follows, and no copy begins.
  ~MemoryCopier();
  MemoryCopier(const MemoryCopier&) = delete;

  void Add(Copy copy) { thread_.Add(std::move(copy)); }
  // Runs `act` when no copy added so far reads or writes memory any more: at once, if they end
  // within `limit`, else later, in the thread.
  void AfterCopies(std::chrono::milliseconds limit, std::function<void()> act);

 private:
  struct State {
    explicit State(const DriverApi& cuda) : driver(cuda) {}
    // Guards `ended`, and is held while a `done` runs.
    std::mutex done_mutex;
    bool ended = false;
    // The thread's:
    const DriverApi& driver;
    std::map<CUcontext, CUstream> streams;
  };

  explicit MemoryCopier(const std::shared_ptr<State>& state);
  static void Run(State& state, const std::deque<Copy>& copies);
  static absl::Status Enqueue(State& state, const Copy& copy, CUstream* stream);

  const std::shared_ptr<State> state_;
  DriverThread<Copy> thread_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_
