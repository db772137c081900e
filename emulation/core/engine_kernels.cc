// Kernels that have left their hardware queues: those that watch a word, and resumable ones.

#include <sched.h>

#include <algorithm>
#include <utility>

#include "emulation/core/engine.h"
#include "emulation/core/kernel_run.h"

namespace mccs::emulation {
namespace {

// How long the exit of the process waits for pieces that run: much longer than a piece takes, but
// limited, because a piece may itself (against the rules) end the process.
constexpr std::chrono::milliseconds kLongestPieceAtExit{500};

}  // namespace

// If the head is such a kernel and may begin, moves it to a queue of its own.
bool Engine::StartDetached(HardwareQueue& queue) {
  if (!MayBegin(queue)) return false;
  HardwareQueue::Entry& head = queue.entries.front();
  if (auto* wait = std::get_if<WaitWord>(&head.work); wait != nullptr && wait->detached) {
    wait->detached = false;  // done now
  } else if (auto* kernel = std::get_if<ResumableKernel>(&head.work);
             kernel != nullptr && kernel->run == nullptr) {
    kernel->run = std::make_shared<KernelRun>(std::move(kernel->launch));
    ++ready_pieces_;
  } else {
    return false;
  }
  HardwareQueue* const detached = TakeDetachedQueue();
  head.stream->detached_queue_ = detached;
  detached->entries.push_back(std::move(head));
  detached->active = true;
  active_.push_back(detached);
  DropHead(queue);
  return true;
}

HardwareQueue* Engine::TakeDetachedQueue() {
  if (unused_detached_queues_.empty()) {
    detached_queues_.push_back(std::make_unique<HardwareQueue>());
    return detached_queues_.back().get();
  }
  HardwareQueue* const queue = unused_detached_queues_.back();
  unused_detached_queues_.pop_back();
  return queue;
}

// Returns what the queue's head waits for if only the word's value blocks it.
WaitWord* Engine::BlockedWait(HardwareQueue& queue) {
  if (!MayBegin(queue)) return nullptr;
  Work& work = queue.entries.front().work;
  return ended_ && IsResumable(work) ? nullptr : CurrentWait(work);
}

// Whether a kernel that has begun has a piece to run.
bool Engine::PieceReady(const ResumableKernel& kernel) const {
  if (ended_ || kernel.run == nullptr) return false;
  const WaitWord* wait = kernel.run->wait();
  return wait == nullptr || IsSatisfied(*wait);
}

// Runs one piece of a kernel. REQUIRES: HeadReady(queue). Releases the lock while the piece runs.
void Engine::RunPiece(Lock& lock, HardwareQueue& queue) {
  ResumableKernel& kernel = std::get<ResumableKernel>(queue.entries.front().work);
  // Before the piece, because it may unmap the line.
  if (WaitWord* wait = kernel.run->wait()) Withdraw(*wait);
  queue.running = true;
  queue.served = ++pieces_;
  if (ready_pieces_ > 0) --ready_pieces_;
  lock.unlock();
  const bool finished = kernel.run->Advance();
  lock = Acquire();
  queue.running = false;
  if (finished) return FinishHead(queue);
  ++activity_;
  if (PieceReady(kernel)) ++ready_pieces_;
  // This thread watches the new word. Threads that sleep do not, and need not, until this thread
  // stops (HandOver, RunHead): waking them for each piece would cost more than the piece.
  if (sleeping_on_generation_ > 0) sleepers_outdated_ = true;
  if (ended_) NotifySleepers();
}

// Runs a piece of the kernel that has waited longest for a thread. Returns whether there was one.
bool Engine::RunOnePiece(Lock& lock) {
  HardwareQueue* next = nullptr;
  for (HardwareQueue* queue : active_) {
    if (!IsResumable(queue->entries.front().work) || !HeadReady(*queue)) continue;
    if (next == nullptr || queue->served < next->served) next = queue;
  }
  if (next == nullptr) return false;
  RunPiece(lock, *next);
  return true;
}

// The calling thread stops watching words and running pieces: others continue.
void Engine::HandOver() {
  if (watching_ == 0) {
    if (!active_.empty()) WakeBackground();
  } else if (sleepers_outdated_) {
    NotifySleepers();
  }
}

void Engine::OnProcessExit() {
  Lock lock = Acquire();
  ended_ = true;
  NotifySleepers();
  // The objects that the pieces use may be destroyed next.
  const Clock::time_point until = Clock::now() + kLongestPieceAtExit;
  const auto runs = [](const auto& queue) { return queue->running; };
  while (std::ranges::any_of(detached_queues_, runs) && Clock::now() < until) {
    lock.unlock();
    sched_yield();
    lock = Acquire();
  }
}

}  // namespace mccs::emulation
