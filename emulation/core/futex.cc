#include "emulation/core/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace mccs::emulation {
namespace {

constexpr long kFutexWaitv = 449;  // the same on every architecture; Linux 5.16
// Polling interval on kernels that cannot wait for several words at once.
constexpr std::chrono::microseconds kPollWithoutWaitv{100};
constexpr int64_t kNanosPerSecond = 1'000'000'000;

timespec After(std::chrono::nanoseconds limit) {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  const int64_t nanos = at.tv_nsec + limit.count() % kNanosPerSecond;
  at.tv_sec += limit.count() / kNanosPerSecond + nanos / kNanosPerSecond;
  at.tv_nsec = nanos % kNanosPerSecond;
  return at;
}

}  // namespace

bool SleepSet::Add(const void* word, uint32_t expected, bool shared) {
  static_assert(sizeof(Entry) == sizeof(futex_waitv));
  if (count_ == kMaxWords) return false;
  const uint32_t flags = FUTEX_32 | (shared ? 0 : FUTEX_PRIVATE_FLAG);
  entries_[count_++] = {expected, reinterpret_cast<uintptr_t>(word), flags, 0};
  return true;
}

void SleepSet::Sleep(std::chrono::nanoseconds limit) {
  const timespec until = After(limit);
  const long woken = syscall(kFutexWaitv, entries_, count_, 0, &until, CLOCK_MONOTONIC);
  if (woken >= 0 || errno != ENOSYS) return;
  const auto nap = std::min<std::chrono::nanoseconds>(limit, kPollWithoutWaitv);
  const timespec duration{0, nap.count()};
  nanosleep(&duration, nullptr);
}

void WakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX,
          nullptr, nullptr, 0);
}

}  // namespace mccs::emulation
