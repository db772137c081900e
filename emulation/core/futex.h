// Sleeping on words of memory: the system calls that the stream engine needs.
#ifndef MCCS_EMULATION_CORE_FUTEX_H_
#define MCCS_EMULATION_CORE_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mccs::emulation {

// Sleeps until one of several words is woken or differs from its expected value, or the limit
// expires. May return early without a reason, and when a word's memory is no longer mapped; callers
// check the words again.
class SleepSet {
 public:
  static constexpr size_t kMaxWords = 128;  // the kernel's limit for one sleep

  // Adds a word. `shared`: other processes may wake it. Returns false if the set is full.
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
