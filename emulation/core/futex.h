// Sleeping on words of memory: the few system calls that the stream engine needs.
#ifndef MCCS_EMULATION_CORE_FUTEX_H_
#define MCCS_EMULATION_CORE_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mccs::emulation {

// Sleeps until one of several words is woken or differs from what is expected of it, or time is up.
// Also returns early for no reason, and when a word's memory is no longer mapped; so look again.
class SleepSet {
 public:
  static constexpr size_t kMaxWords = 128;  // the kernel's limit for one sleep

  // A word that other processes may wake (`shared`), or this one alone.
  // Returns false where the set is full.
  bool Add(const void* word, uint32_t expected, bool shared);
  void Sleep(std::chrono::nanoseconds limit);

 private:
  struct Entry {  // struct futex_waitv of the kernel
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
  };
  Entry entries_[kMaxWords];
  size_t count_ = 0;
};

// Wakes all threads of this process that sleep on `word`.
void WakeAll(std::atomic<uint32_t>& word);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_FUTEX_H_
