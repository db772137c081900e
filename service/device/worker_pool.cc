#include "service/device/worker_pool.h"

#include <pthread.h>

#include "base/check.h"
#include "hwy/cache_control.h"
#include "service/device/mem_op.h"

namespace mccs {
namespace {

// About 20 µs on a processor whose pause takes 140 cycles, a quarter of that on older ones.
constexpr int kSpins = 400;

// Number of queued jobs that justifies a wake-up: the owner runs one job itself.
constexpr int64_t kWakeFromJobs = 2;

}  // namespace

WorkerPool::WorkerPool(int workers, size_t capacity, MemoryMeter* meter)
    : meter_(meter), jobs_(capacity), done_(capacity) {
  for (int i = 0; i < workers; ++i) {
    threads_.emplace_back([this] { WorkerLoop(); });
    pthread_setname_np(threads_.back().native_handle(), "mccs-mem-op");
  }
}

WorkerPool::~WorkerPool() {
  stop_.store(true);  // pairs with the loads in WorkerLoop, SpinForJob and Sleep
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  while (!parts_.done()) RunPart();
}

void WorkerPool::Start(const MemOp& op, MemToken token) {
  const int64_t queued = queued_.fetch_add(1) + 1;
  if (!jobs_.Push({op, token})) {
    // A worker was preempted while it took the job that is in the next cell, `capacity` jobs ago.
    queued_.fetch_sub(1);
    overflow_.push_back({op, token});
    return;
  }
  if (queued >= kWakeFromJobs && sleepers_.load() > 0) {
    wake_.fetch_add(1);  // pairs with the load in Sleep
    wake_.notify_one();
  }
}

size_t WorkerPool::Collect(std::span<MemToken> finished) {
  size_t count = 0;
  while (count < finished.size() && done_.Pop(finished[count])) ++count;
  return count;
}

WorkerPool::HelpResult WorkerPool::Help() {
  if (parts_.done() && !TakeForOwner()) return {};
  RunPart();
  return {.worked = true, .finished = parts_.done() ? std::optional(token_) : std::nullopt};
}

bool WorkerPool::TakeForOwner() {
  std::optional<Job> job;
  if (overflow_.empty()) {
    job = Take();
    if (!job) return false;
  } else {
    job = overflow_.front();
    overflow_.pop_front();
  }
  token_ = job->token;
  parts_.Begin(job->op);
  return true;
}

void WorkerPool::RunPart() {
  const MemOp part = parts_.Next();
  if (meter_ != nullptr) {
    meter_->Run(part);
  } else {
    RunMemOp(part);
  }
}

void WorkerPool::WorkerLoop() {
  while (!stop_.load()) {
    std::optional<Job> job = Take();
    if (!job) job = SpinForJob();
    if (job) {
      RunMemOp(job->op);
      MCCS_CHECK(done_.Push(job->token));
    } else {
      Sleep();
    }
  }
}

std::optional<WorkerPool::Job> WorkerPool::Take() {
  if (queued_.load(std::memory_order_relaxed) == 0) return std::nullopt;  // a hint; Pop is exact
  Job job;
  if (!jobs_.Pop(job)) return std::nullopt;
  queued_.fetch_sub(1);
  return job;
}

std::optional<WorkerPool::Job> WorkerPool::SpinForJob() {
  for (int i = 0; i < kSpins && !stop_.load(std::memory_order_relaxed); ++i) {
    if (std::optional<Job> job = Take()) return job;
    hwy::Pause();
  }
  return std::nullopt;
}

void WorkerPool::Sleep() {
  const uint32_t seen = wake_.load();
  sleepers_.fetch_add(1);
  if (queued_.load() == 0 && !stop_.load()) wake_.wait(seen);
  sleepers_.fetch_sub(1);
}

}  // namespace mccs
