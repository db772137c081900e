#include "shim/buffers/memory_copier.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "shim/cuda/own_stream.h"

namespace mccs::shim {

MemoryCopier::MemoryCopier(const std::shared_ptr<State>& state)
    : state_(state),
      thread_([state](const std::deque<std::shared_ptr<Job>>& jobs) { Run(*state, jobs); }) {}

MemoryCopier::~MemoryCopier() {
  std::lock_guard lock(state_->done_mutex);
  state_->ended = true;
}

void MemoryCopier::Add(Copy copy) {
  const auto job = std::make_shared<Job>(Job{.copy = std::move(copy)});
  {
    std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(job);
  }
  thread_.Add(job);
}

void MemoryCopier::Drop(uint64_t number) {
  std::lock_guard lock(state_->mutex);
  for (const std::shared_ptr<Job>& job : state_->jobs) {
    if (job->copy.number == number && job->phase == Phase::kWaiting) job->phase = Phase::kDropped;
  }
}

void MemoryCopier::DropInto(const AddressRange& range) {
  std::lock_guard lock(state_->mutex);
  for (const std::shared_ptr<Job>& job : state_->jobs) {
    if (job->copy.to.Overlaps(range) && job->phase == Phase::kWaiting) job->phase = Phase::kDropped;
  }
}

bool MemoryCopier::AwaitRunning(const AddressRange& range, std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  return state_->ended_some.wait_for(lock, limit, [&] {
    return std::ranges::none_of(state_->jobs, [&](const std::shared_ptr<Job>& job) {
      return job->phase == Phase::kRunning && job->copy.to.Overlaps(range);
    });
  });
}

// Enqueues all copies before it waits for the first one.
void MemoryCopier::Run(State& state, const std::deque<std::shared_ptr<Job>>& jobs) {
  {
    std::lock_guard lock(state.done_mutex);
    if (state.ended) return;
  }
  const RelaxedCapture relaxed(state.driver);  // captures of other threads go on
  std::deque<std::pair<absl::Status, CUstream>> begun;
  for (const std::shared_ptr<Job>& job : jobs) {
    CUstream stream = nullptr;
    absl::Status status = Begin(state, *job, &stream);
    begun.emplace_back(std::move(status), stream);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    auto& [status, stream] = begun[i];
    if (status.ok()) {
      const ScopedContext context(state.driver, jobs[i]->copy.context);
      status =
          CheckCuda(state.driver, state.driver.StreamSynchronize(stream), "cuStreamSynchronize");
    }
    End(state, jobs[i], status);
  }
}

absl::Status MemoryCopier::Begin(State& state, Job& job, CUstream* stream) {
  {
    std::lock_guard lock(state.mutex);
    if (job.phase == Phase::kDropped)
      return absl::CancelledError("the copy's target or communicator has ended");
    job.phase = Phase::kRunning;
  }
  return Enqueue(state, job.copy, stream);
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
  return CheckCuda(state.driver,
                   state.driver.MemcpyAsync(copy.to.base, copy.from, copy.to.bytes, known),
                   "cuMemcpyAsync");
}

void MemoryCopier::End(State& state, const std::shared_ptr<Job>& job, const absl::Status& status) {
  {
    std::lock_guard lock(state.mutex);
    std::erase(state.jobs, job);
    state.ended_some.notify_all();
  }
  job->copy.source.reset();
  std::lock_guard lock(state.done_mutex);
  if (!state.ended) job->copy.done(status);
}

}  // namespace mccs::shim
