#include "shim/buffers/memory_copier.h"

#include <utility>

#include "base/status_macros.h"
#include "shim/cuda/own_stream.h"

namespace mccs::shim {

MemoryCopier::MemoryCopier(const std::shared_ptr<State>& state)
    : state_(state), thread_([state](const std::deque<Copy>& copies) { Run(*state, copies); }) {}

MemoryCopier::~MemoryCopier() {
  std::lock_guard lock(state_->done_mutex);
  state_->ended = true;
}

void MemoryCopier::AfterCopies(std::chrono::milliseconds limit, std::function<void()> act) {
  if (thread_.Await(limit)) return act();
  thread_.Add({.done = {}, .act = std::move(act)});
}

// Enqueues all copies before it waits for the first one.
void MemoryCopier::Run(State& state, const std::deque<Copy>& copies) {
  bool ended = false;
  {
    std::lock_guard lock(state.done_mutex);
    ended = state.ended;
  }
  const RelaxedCapture relaxed(state.driver);  // captures of other threads go on
  std::deque<std::pair<absl::Status, CUstream>> enqueued;
  for (const Copy& copy : copies) {
    CUstream stream = nullptr;
    absl::Status status;
    if (!ended && !copy.act) status = Enqueue(state, copy, &stream);
    enqueued.emplace_back(std::move(status), stream);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].act) copies[i].act();
    if (ended || copies[i].act) continue;
    auto& [status, stream] = enqueued[i];
    if (status.ok()) {
      const ScopedContext context(state.driver, copies[i].context);
      status =
          CheckCuda(state.driver, state.driver.StreamSynchronize(stream), "cuStreamSynchronize");
    }
    std::lock_guard lock(state.done_mutex);
    if (!state.ended) copies[i].done(status);
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
