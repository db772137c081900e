// How the stream engine's threads sleep, and its two own threads.

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "emulation/core/engine.h"
#include "emulation/core/futex.h"
#include "proto/fence_page.h"

namespace mccs::emulation {
namespace {

// The background thread runs work that has been ready for this long.
constexpr std::chrono::microseconds kBackgroundDelay{50};
// While the program enqueues, the background thread polls at this interval and needs no wakeup.
// After kIdleBackgroundPolls polls without new work it sleeps until `background_wakeup_` changes.
constexpr std::chrono::microseconds kBackgroundPollInterval{100};
constexpr int kIdleBackgroundPolls = 5;
// After progress it polls for this long before it sleeps: if a signal had to wake it for every
// operation of a long sequence, that would take longer than the operations.
constexpr std::chrono::microseconds kBackgroundSpin{20};
constexpr std::chrono::milliseconds kLongestBackgroundSleep{1000};
// A thread that sleeps on a fence line is woken by the thread that signals. The kernel compares
// only the line's low half, so it can miss a new value with the same low half. The limit bounds
// that delay, too.
constexpr std::chrono::milliseconds kLongestFenceSleep{20};
constexpr std::chrono::microseconds kLongestUnfencedPoll{1000};

// By default the kernel adds 50 µs to each short sleep.
void UsePreciseTimers() { prctl(PR_SET_TIMERSLACK, 1000UL); }

}  // namespace

// Wakes the threads that sleep on the generation.
void Engine::NotifySleepers() {
  sleepers_outdated_ = false;
  if (sleeping_on_generation_ == 0) return;
  generation_.fetch_add(1, std::memory_order_relaxed);  // the lock orders it
  WakeAll(generation_);
}

void Engine::WakeBackground() {
  if (background_ == Background::kAbsent) {
    background_ = Background::kAwake;
    std::thread(&Engine::BackgroundLoop, this).detach();
    return;
  }
  if (background_ == Background::kAwake) return;
  // It looks again soon. If the program leaves its kernels to this thread, that is too late for
  // one.
  if (background_ == Background::kPolls && (kernels_awaited_ || ready_pieces_ == 0)) return;
  if (background_watches_ && background_seen_ == activity_) return;  // no news for it
  background_ = Background::kAwake;
  background_wakeup_.fetch_add(1, std::memory_order_relaxed);
  WakeAll(background_wakeup_);
}

// Releases the lock and sleeps until `wakeup` changes or the limit expires; with `watch_words` also
// until a word changes that the head of a queue waits for.
//
// While threads sleep on a wait, its line's `sleepers` counts it. FinishHead and RunPiece take the
// count back, while the memory is certainly still mapped. The increment and the second read (both
// sequentially consistent) pair with SignalFence.
void Engine::Sleep(Lock& lock, std::atomic<uint32_t>& wakeup, bool watch_words,
                   Clock::duration limit) {
  SleepSet set;
  set.Add(&wakeup, wakeup.load(std::memory_order_relaxed), false);
  bool unfenced = false;
  for (size_t i = 0; watch_words && i < active_.size(); ++i) {
    WaitWord* wait = BlockedWait(*active_[i]);
    if (wait == nullptr) continue;
    if (!wait->word.fence) {
      unfenced = true;
      continue;
    }
    auto& line = *static_cast<wire::FenceLine*>(wait->word.address);
    Announce(*wait);
    const uint64_t seen = line.value.load(std::memory_order_seq_cst);
    if (IsSatisfied(*wait)) return;
    limit = std::min<Clock::duration>(limit, kLongestFenceSleep);
    if (!set.Add(&line.value, static_cast<uint32_t>(seen), true)) unfenced = true;
  }
  if (unfenced) {
    limit = std::min(limit, unfenced_poll_);
    unfenced_poll_ = std::min<Clock::duration>(unfenced_poll_ * 2, kLongestUnfencedPoll);
  }
  const bool counted = &wakeup == &generation_;
  if (counted) ++sleeping_on_generation_;
  lock.unlock();
  set.Sleep(limit);
  lock = Acquire();
  if (counted) --sleeping_on_generation_;
}

void Engine::BackgroundLoop() {
  UsePreciseTimers();
  Lock lock = Acquire();
  uint64_t seen_activity = activity_;
  Clock::time_point spin_until{};
  int idle = 0;
  for (;;) {
    bool progress = AdvanceInstant();
    bool young = false;
    progress |= RunOverdue(lock, &young);
    const bool awaited = watching_ > 0;
    if (RunOnePiece(lock)) {
      progress = true;
      kernels_awaited_ &= awaited;
    }
    if (progress) {
      spin_until = Clock::now() + kBackgroundSpin;
      continue;
    }
    // Threads in Wait() watch the words; the last one to leave notifies this thread.
    const bool watch = watching_ == 0 && !active_.empty();
    if (watch && !young && Clock::now() < spin_until) {
      lock.unlock();
      sched_yield();
      lock = Acquire();
      continue;
    }
    idle = activity_ == seen_activity ? idle + 1 : 0;
    seen_activity = activity_;
    const bool polls = young || idle < kIdleBackgroundPolls;
    background_ = polls ? Background::kPolls : Background::kAsleep;
    background_watches_ = watch;
    background_seen_ = activity_;
    if (!watch && sleepers_outdated_) NotifySleepers();
    Sleep(lock, background_wakeup_, watch,
          young   ? kBackgroundDelay
          : polls ? kBackgroundPollInterval
                  : kLongestBackgroundSleep);
    background_ = Background::kAwake;
  }
}

// Runs work that the previous poll found ready, except kernels' pieces. `*young`: some work became
// ready since then.
bool Engine::RunOverdue(Lock& lock, bool* young) {
  for (HardwareQueue* queue : active_) {
    if (queue->assigned || IsResumable(queue->entries.front().work)) continue;
    if (!HeadReady(*queue)) continue;
    if (queue->seen_by_background != queue->finished) {
      queue->seen_by_background = queue->finished;
      *young = true;
      continue;
    }
    if (CostOf(queue->entries.front().work) == Cost::kUnbounded) {
      AssignToCallbacks(*queue);
      continue;
    }
    RunHead(lock, *queue);
    queue->seen_by_background = queue->finished;  // its next head may run at once
    return true;                                  // `active_` may have changed
  }
  return false;
}

void Engine::AssignToCallbacks(HardwareQueue& queue) {
  queue.assigned = true;
  if (!callbacks_started_) {
    callbacks_started_ = true;
    std::thread(&Engine::CallbackLoop, this).detach();
  }
  callbacks_assigned_.notify_one();
}

void Engine::CallbackLoop() {
  Lock lock = Acquire();
  for (;;) {
    const auto assigned =
        std::find_if(active_.begin(), active_.end(),
                     [this](HardwareQueue* queue) { return queue->assigned && HeadReady(*queue); });
    if (assigned == active_.end()) {
      callbacks_assigned_.wait(lock);
      continue;
    }
    HardwareQueue& queue = **assigned;
    RunHead(lock, queue);
    queue.seen_by_background = queue.finished;
    AdvanceInstant();
    HandOver();
  }
}

}  // namespace mccs::emulation
