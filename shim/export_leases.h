// When an export ends that nobody has taken back: after a lease without use, because the program
// may have freed the memory where nobody saw it.
//
// A use is noted only when a buffer is looked up among all exports, so the hot path pays one load:
// a round of the leases begins a new generation, which empties every communicator's recent buffers,
// and what is used from then on is looked up anew. A call that was looked up before the round and
// is not in its ring yet names a buffer that nobody seems to use; so a round ends exports only
// after it has seen each communicator once without such calls.
//
//   resting ──half a lease──► asking: has everybody posted what it looked up? ──yes──► ending
//      ▲                        └──kMostQuestions: the next round tries again──┐          │
//      └───────────────────────────────────────────────────────────────────────┴──────────┘
//
// What is posted needs no care here: the daemon serves records before it lets go of what they name.
#ifndef MCCS_SHIM_EXPORT_LEASES_H_
#define MCCS_SHIM_EXPORT_LEASES_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/address_range.h"

namespace mccs::shim {

class UnpostedCalls;

// THREAD: any, unless said otherwise.
class ExportLeases {
 public:
  using Clock = std::chrono::steady_clock;

  // 0: exports do not end by themselves.
  explicit ExportLeases(std::chrono::milliseconds lease) : lease_(lease) {}

  // ---- Uses ----

  // What a communicator remembers of an older generation must be looked up again.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Something has ended.
  void BeginGeneration() { generation_.fetch_add(1, std::memory_order_acq_rel); }

  struct Use {
    uint64_t generation = 0;
    Clock::time_point when{};
  };
  Use UsedNow() const { return {generation(), Clock::now()}; }

  // ---- Ranges that keep their exports: registered, or part of a graph. Counted ----

  void Keep(const AddressRange& range);
  void EndKeep(const AddressRange& range);
  bool IsKept(const AddressRange& range) const;

  // ---- Rounds. THREAD: one, the owner's ----

  static constexpr std::chrono::milliseconds kBetweenQuestions{10};
  static constexpr int kMostQuestions = 50;

  bool endless() const { return lease_.count() == 0; }
  // From now on there is something to end.
  void Start(Clock::time_point now);
  // When the owner has to ask again, and whether exports may be ended now (those of which HasEnded
  // is true; then RoundDone).
  struct Step {
    Clock::time_point next;
    bool may_end = false;
  };
  Step Poll(Clock::time_point now);
  bool HasEnded(const Use& last, const AddressRange& range, Clock::time_point now) const;
  void RoundDone(Clock::time_point now);

 private:
  friend class UnpostedCalls;
  bool AllHavePosted();

  const std::chrono::milliseconds lease_;
  std::atomic<uint64_t> generation_{1};  // pairs: release in BeginGeneration, acquire in generation
  mutable std::mutex kept_mutex_;
  std::vector<AddressRange> kept_;  // guarded by kept_mutex_

  std::mutex users_mutex_;
  std::vector<UnpostedCalls*> users_;  // guarded by users_mutex_

  // Of the round, its thread's alone:
  Clock::time_point next_{};
  bool asking_ = false;
  int questions_ = 0;
  uint64_t quiet_ =
      0;  // the newest generation in which all had posted what they had looked up before
};

// How many calls of one communicator have looked their buffers up and are not in its ring.
// THREAD: under the communicator's submit lock.
class UnpostedCalls {
 public:
  // LIFETIME: both outlive this. REQUIRES: the lock is not held when this is destroyed.
  UnpostedCalls(ExportLeases& leases, std::mutex& submit_lock);
  ~UnpostedCalls();
  UnpostedCalls(const UnpostedCalls&) = delete;
  UnpostedCalls& operator=(const UnpostedCalls&) = delete;

  void Add() { ++count_; }
  void Posted(uint32_t calls) { count_ -= calls; }

 private:
  friend class ExportLeases;

  ExportLeases& leases_;
  std::mutex& submit_lock_;
  uint64_t count_ = 0;
  uint64_t seen_without_ = 0;  // the generation in which there were none; of the round's thread
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_EXPORT_LEASES_H_
