#include "shim/buffers/memory_copier.h"

#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "shim/cuda/own_stream.h"

namespace mccs::shim {
MemoryCopier::~MemoryCopier() {
  {
    std::lock_guard lock(state_->done_mutex);
    state_->done_ended = true;
  }
  std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void MemoryCopier::Add(Copy copy) {
  std::lock_guard lock(state_->mutex);
  if (!state_->started) {
    state_->started = true;
    std::thread([state = state_] { Run(state); }).detach();
  }
  state_->copies.push_back(std::move(copy));
  state_->changed.notify_all();
}

void MemoryCopier::AwaitIdle(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, limit, [&] { return state_->copies.empty() && !state_->working; });
}

// All copies that wait are enqueued before the first one is waited for.
void MemoryCopier::Run(const std::shared_ptr<State>& state) {
  const RelaxedCapture relaxed(state->driver);  // captures of other threads go on
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ended || !state->copies.empty(); });
    if (state->ended) return;
    const std::deque<Copy> copies = std::exchange(state->copies, {});
    state->working = true;
    lock.unlock();
    std::deque<std::pair<absl::Status, CUstream>> enqueued;
    for (const Copy& copy : copies) {
      CUstream stream = nullptr;
      absl::Status status = Enqueue(*state, copy, &stream);
      enqueued.emplace_back(std::move(status), stream);
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      auto& [status, stream] = enqueued[i];
      if (status.ok()) {
        const ScopedContext context(state->driver, copies[i].context);
        status = CheckCuda(state->driver, state->driver.StreamSynchronize(stream),
                           "cuStreamSynchronize");
      }
      std::lock_guard done_lock(state->done_mutex);
      if (!state->done_ended) copies[i].done(status);
    }
    lock.lock();
    state->working = false;
    state->changed.notify_all();
  }
}

absl::Status MemoryCopier::Enqueue(State& state, const Copy& copy, CUstream* stream) {
  const ScopedContext context(state.driver, copy.context);
  CUstream& known = state.streams[copy.context];
  if (known == nullptr) {
    MCCS_RETURN_IF_ERROR(CheckCuda(state.driver,
                                   CreateOwnStream(state.driver, OwnStreamUse::kCopies, &known),
                                   "cannot create a stream for copies"));
  }
  *stream = known;
  return CheckCuda(state.driver, state.driver.MemcpyAsync(copy.to, copy.from, copy.bytes, known),
                   "cuMemcpyAsync");
}

}  // namespace mccs::shim
