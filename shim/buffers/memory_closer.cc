#include "shim/buffers/memory_closer.h"

#include <thread>
#include <utility>

#include "shim/cuda/virtual_mapping.h"

namespace mccs::shim {

MemoryCloser::~MemoryCloser() {
  std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void MemoryCloser::Close(const Opened& memory) {
  if (memory.empty()) return;
  std::unique_lock lock(state_->mutex);
  if (!state_->started) {
    state_->started = true;
    std::thread([state = state_] { Run(state); }).detach();
  }
  state_->opened.push_back(memory);
  const uint64_t number = ++state_->added;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kLimit, [&] { return state_->closed >= number; });
}

void MemoryCloser::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ended || !state->opened.empty(); });
    if (state->opened.empty()) return;
    Opened next = std::move(state->opened.front());
    state->opened.pop_front();
    lock.unlock();
    {
      const ScopedContext context(state->driver, next.context);
      const RelaxedCapture relaxed(state->driver);  // captures of other threads go on
      if (next.ipc != 0) state->driver.IpcCloseMemHandle(next.ipc);
      if (next.host != nullptr) state->driver.MemHostUnregister(next.host->data());
      if (next.mapped.bytes > 0) (void)UnmapAllocation(state->driver, next.mapped);
    }
    next = {};
    lock.lock();
    ++state->closed;
    state->changed.notify_all();
  }
}

}  // namespace mccs::shim
