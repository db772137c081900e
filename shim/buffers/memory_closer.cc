#include "shim/buffers/memory_closer.h"

#include <thread>

namespace mccs::shim {

MemoryCloser::~MemoryCloser() {
  std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void MemoryCloser::Close(CUcontext context, CUdeviceptr memory) {
  std::unique_lock lock(state_->mutex);
  if (!state_->started) {
    state_->started = true;
    std::thread([state = state_] { Run(state); }).detach();
  }
  state_->opened.push_back({context, memory});
  const uint64_t number = ++state_->added;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kLimit, [&] { return state_->closed >= number; });
}

void MemoryCloser::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ended || !state->opened.empty(); });
    if (state->opened.empty()) return;
    const State::Opened next = state->opened.front();
    state->opened.pop_front();
    lock.unlock();
    {
      const ScopedContext context(state->driver, next.context);
      state->driver.IpcCloseMemHandle(next.memory);
    }
    lock.lock();
    ++state->closed;
    state->changed.notify_all();
  }
}

}  // namespace mccs::shim
