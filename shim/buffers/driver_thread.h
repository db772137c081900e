// A thread that calls CUDA for others. A call may wait for kernels of the program, or forever: so
// the thread is detached, and owns with its queue what outlives this object.
//
// THREAD: any.
#ifndef MCCS_SHIM_BUFFERS_DRIVER_THREAD_H_
#define MCCS_SHIM_BUFFERS_DRIVER_THREAD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace mccs::shim {

template <typename Item>
class DriverThread {
 public:
  // Handles and destroys all items that have been added since its last call, the oldest first.
  using Work = std::function<void(std::deque<Item>)>;

  // The thread starts with the first item. LIFETIME: of what `work` refers to: until the thread has
  // handled all items, also after the end of this.
  explicit DriverThread(Work work) : state_(std::make_shared<State>()) {
    state_->work = std::move(work);
  }
  ~DriverThread() {
    std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->changed.notify_all();
  }
  DriverThread(const DriverThread&) = delete;

  void Add(Item item) {
    std::lock_guard lock(state_->mutex);
    if (state_->added++ == 0) std::thread([state = state_] { Run(*state); }).detach();
    state_->items.push_back(std::move(item));
    state_->changed.notify_all();
  }
  // Waits until the items added so far are handled, `limit` at most.
  void Await(std::chrono::milliseconds limit) {
    std::unique_lock lock(state_->mutex);
    const uint64_t added = state_->added;
    state_->changed.wait_for(lock, limit, [&] { return state_->handled >= added; });
  }

 private:
  struct State {
    Work work;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Item> items;
    uint64_t added = 0;
    uint64_t handled = 0;
    bool ended = false;
  };

  static void Run(State& state) {
    std::unique_lock lock(state.mutex);
    for (;;) {
      state.changed.wait(lock, [&] { return state.ended || !state.items.empty(); });
      if (state.items.empty()) return;
      std::deque<Item> items = std::exchange(state.items, {});
      const size_t count = items.size();
      lock.unlock();
      state.work(std::move(items));
      lock.lock();
      state.handled += count;
      state.changed.notify_all();
    }
  }

  const std::shared_ptr<State> state_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_DRIVER_THREAD_H_
