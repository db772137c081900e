// How the stream engine's threads sleep, and the two threads of its own.

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "emulation/core/engine.h"
#include "emulation/core/futex.h"
#include "proto/fence_page.h"

namespace mccs::emulation {
namespace {

// The background thread takes up what nobody has for this long.
constexpr std::chrono::microseconds kGrace{50};
// While the program enqueues, it looks this often and needs no bell; after so many looks without
// any news it sleeps until the bell.
constexpr std::chrono::microseconds kDoze{100};
constexpr int kDozes = 5;
constexpr std::chrono::milliseconds kDeepSleep{1000};
// A sleeper on a fence line is woken by whoever signals. The line's low half is what the kernel
// compares, so a value with the same low half can slip in between; the limit bounds that too.
constexpr std::chrono::milliseconds kLongestFenceSleep{20};
constexpr std::chrono::microseconds kLongestUnfencedPoll{1000};

// Without it the kernel adds 50 µs to each of our short sleeps.
void WantPreciseTimers() { prctl(PR_SET_TIMERSLACK, 1000UL); }

}  // namespace

// Something happened that a sleeping thread may wait for.
void Engine::Changed() {
  if (sleeping_on_generation_ == 0) return;
  generation_.fetch_add(1, std::memory_order_relaxed);  // the lock orders it
  WakeAll(generation_);
}

void Engine::NudgeBackground() {
  if (background_ == Background::kAbsent) {
    background_ = Background::kAwake;
    std::thread(&Engine::BackgroundLoop, this).detach();
    return;
  }
  if (background_ != Background::kAsleep) return;
  if (background_watches_ && background_seen_ == activity_) return;  // it knows all there is
  background_ = Background::kAwake;
  background_bell_.fetch_add(1, std::memory_order_relaxed);
  WakeAll(background_bell_);
}

// Lets go of the lock until `bell` rings or time is up; with `watch_words` also until a word
// changes that the head of a queue waits for.
//
// A wait that somebody sleeps on is counted in its line's `sleepers` from then until it is over:
// who finishes it takes the count back, while the memory is certainly still there. The increment
// and the second look (both sequentially consistent) pair with SignalFence.
void Engine::Sleep(Lock& lock, std::atomic<uint32_t>& bell, bool watch_words,
                   Clock::duration limit) {
  SleepSet set;
  set.Add(&bell, bell.load(std::memory_order_relaxed), false);
  bool unfenced = false;
  for (size_t i = 0; watch_words && i < active_.size(); ++i) {
    WaitWord* wait = BlockedWait(*active_[i]);
    if (wait == nullptr) continue;
    if (!wait->word.fence) {
      unfenced = true;
      continue;
    }
    auto& line = *static_cast<wire::FenceLine*>(wait->word.address);
    if (!wait->announced) line.sleepers.fetch_add(1, std::memory_order_seq_cst);
    wait->announced = true;
    const uint64_t seen = line.value.load(std::memory_order_seq_cst);
    if (IsSatisfied(*wait)) return;
    limit = std::min<Clock::duration>(limit, kLongestFenceSleep);
    if (!set.Add(&line.value, static_cast<uint32_t>(seen), true)) unfenced = true;
  }
  if (unfenced) {
    limit = std::min(limit, unfenced_poll_);
    unfenced_poll_ = std::min<Clock::duration>(unfenced_poll_ * 2, kLongestUnfencedPoll);
  }
  const bool counted = &bell == &generation_;
  if (counted) ++sleeping_on_generation_;
  lock.unlock();
  set.Sleep(limit);
  lock = Acquire();
  if (counted) --sleeping_on_generation_;
}

void Engine::BackgroundLoop() {
  WantPreciseTimers();
  Lock lock = Acquire();
  uint64_t seen_activity = activity_;
  int idle = 0;
  for (;;) {
    bool progress = AdvanceInstant();
    bool young = false;
    progress |= RunOverdue(lock, &young);
    if (progress) continue;
    idle = activity_ == seen_activity ? idle + 1 : 0;
    seen_activity = activity_;
    // Who waits in Wait() looks after the words; the bell rings when the last of them leaves.
    const bool watch = watching_ == 0 && !active_.empty();
    const bool doze = young || idle < kDozes;
    background_ = doze ? Background::kAwake : Background::kAsleep;
    background_watches_ = watch;
    background_seen_ = activity_;
    Sleep(lock, background_bell_, watch, young ? kGrace : doze ? kDoze : kDeepSleep);
    background_ = Background::kAwake;
  }
}

// Does what the previous look saw ready already. `*young`: something is ready, but only since now.
bool Engine::RunOverdue(Lock& lock, bool* young) {
  for (HardwareQueue* queue : active_) {
    if (queue->offered || !HeadReady(*queue)) continue;
    if (queue->seen_by_background != queue->finished) {
      queue->seen_by_background = queue->finished;
      *young = true;
      continue;
    }
    if (CostOf(queue->entries.front().work) == Cost::kUnbounded) {
      OfferToCallbacks(*queue);
      continue;
    }
    RunHead(lock, *queue);
    queue->seen_by_background = queue->finished;  // its next head need not grow old
    return true;                                  // the list may have changed
  }
  return false;
}

void Engine::OfferToCallbacks(HardwareQueue& queue) {
  queue.offered = true;
  if (!callbacks_started_) {
    callbacks_started_ = true;
    std::thread(&Engine::CallbackLoop, this).detach();
  }
  callbacks_offered_.notify_one();
}

void Engine::CallbackLoop() {
  Lock lock = Acquire();
  for (;;) {
    const auto offered = std::find_if(active_.begin(), active_.end(), [](HardwareQueue* queue) {
      return queue->offered && HeadReady(*queue);
    });
    if (offered == active_.end()) {
      callbacks_offered_.wait(lock);
      continue;
    }
    HardwareQueue& queue = **offered;
    RunHead(lock, queue);
    queue.seen_by_background = queue.finished;
    AdvanceInstant();
    if (watching_ == 0 && !active_.empty()) NudgeBackground();
  }
}

}  // namespace mccs::emulation
