// Copies that the daemon requests (CopyMemory in proto/shim_control.h): from host memory into this
// process's memory on a GPU, in a thread and streams of their own, which wait for no stream of the
// program (shim/cuda/own_stream.h).
//
// A call of CUDA may hold up the thread for long, so copies may wait for longer than they are
// needed. A copy keeps its source. Before its target ends, it is dropped, or its end is awaited.
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_
#define MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "base/address_range.h"
#include "shim/buffers/driver_thread.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class MemoryCopier {
 public:
  struct Copy {
    uint64_t number = 0;  // unique among those that have not ended
    CUcontext context = nullptr;
    AddressRange to = {};
    CUdeviceptr from = 0;
    std::shared_ptr<const void> source = nullptr;  // keeps `from`; released by the thread
    // Called by the thread, once. kCancelled: it was dropped.
    std::function<void(const absl::Status&)> done;
  };

  // LIFETIME: `driver` is never destroyed: the thread may outlive this.
  explicit MemoryCopier(const DriverApi& driver) : MemoryCopier(std::make_shared<State>(driver)) {}
  // Waits for a call of `done` that is in progress; none follows, and no copy begins.
  ~MemoryCopier();
  MemoryCopier(const MemoryCopier&) = delete;

  void Add(Copy copy);
  // All copies have ended.
  bool idle() const {
    std::lock_guard lock(state_->mutex);
    return state_->jobs.empty();
  }
  // The copy does not begin any more, if it has not begun.
  void Drop(uint64_t number);
  // The same for all copies into the range.
  void DropInto(const AddressRange& range);
  // Waits until no copy into the range is running, `limit` at most. False: one still is.
  bool AwaitRunning(const AddressRange& range, std::chrono::milliseconds limit);

 private:
  enum class Phase : uint8_t { kWaiting, kDropped, kRunning };
  struct Job {
    Copy copy;
    Phase phase = Phase::kWaiting;  // guarded by State::mutex
  };
  struct State {
    explicit State(const DriverApi& cuda) : driver(cuda) {}
    std::mutex mutex;
    std::condition_variable ended_some;
    std::list<std::shared_ptr<Job>> jobs;  // that have not ended, in their order; guarded by mutex
    // Guards `ended`, and is held while a `done` runs.
    std::mutex done_mutex;
    bool ended = false;
    // The thread's:
    const DriverApi& driver;
    std::map<CUcontext, CUstream> streams;
  };

  explicit MemoryCopier(const std::shared_ptr<State>& state);
  static void Run(State& state, const std::deque<std::shared_ptr<Job>>& jobs);
  // Enqueues the copy, unless it was dropped.
  static absl::Status Begin(State& state, Job& job, CUstream* stream);
  static absl::Status Enqueue(State& state, const Copy& copy, CUstream* stream);
  static void End(State& state, const std::shared_ptr<Job>& job, const absl::Status& status);

  const std::shared_ptr<State> state_;
  DriverThread<std::shared_ptr<Job>> thread_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_MEMORY_COPIER_H_
