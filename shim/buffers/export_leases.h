// Ends exports that the program has not released: after a lease without use, because the program
// may have freed the memory unseen.
//
// A use is recorded only when a buffer is looked up among all exports, so the hot path costs one
// load. Each round of the leases begins a new generation, which clears every communicator's recent
// buffers, so that later uses are looked up again. A call that was looked up before the round and
// is not in its ring yet would name a buffer that seems unused. So a round ends exports only after
// it has seen each communicator once without such calls.
//
//     idle  ──half a lease──► asking: has each posted the calls it looked up? ──yes──► ending
//      ▲                        └──limit exceeded: the next round tries again──┐          │
//      └───────────────────────────────────────────────────────────────────────┴──────────┘
//
// Calls already in the ring are safe: the daemon executes records before it releases their buffers.
#ifndef MCCS_SHIM_BUFFERS_EXPORT_LEASES_H_
#define MCCS_SHIM_BUFFERS_EXPORT_LEASES_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/address_range.h"

namespace mccs::shim {

class UnpostedCalls;

// THREAD: any, unless stated otherwise.
class ExportLeases {
 public:
  using Clock = std::chrono::steady_clock;

  // 0: exports do not expire.
  explicit ExportLeases(std::chrono::milliseconds lease) : lease_(lease) {}

  // ---- Uses ----

  // Entries that a communicator cached in an older generation must be looked up again.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Call it when an export has ended.
  void BeginGeneration() { generation_.fetch_add(1, std::memory_order_acq_rel); }

  struct Use {
    uint64_t generation = 0;
    Clock::time_point when{};
  };
  Use UsedNow() const { return {generation(), Clock::now()}; }

  // ---- Kept ranges: registered, or part of a graph. Counted ----

  void Pin(const AddressRange& range);
  void Unpin(const AddressRange& range);
  bool IsPinned(const AddressRange& range) const;

  // ---- Rounds. THREAD: the owner's only ----

  static constexpr std::chrono::milliseconds kPollInterval{10};
  static constexpr int kMaxPolls = 50;

  bool unlimited() const { return lease_.count() == 0; }
  // Call it when there are exports that may expire.
  void Start(Clock::time_point now);
  // The time of the owner's next Poll, and whether it may end exports now (those with HasExpired;
  // then it calls EndRound).
  struct Step {
    Clock::time_point next;
    bool may_expire = false;
  };
  Step Poll(Clock::time_point now);
  bool HasExpired(const Use& last, const AddressRange& range, Clock::time_point now) const;
  void EndRound(Clock::time_point now);

 private:
  friend class UnpostedCalls;
  bool AllHavePosted();

  const std::chrono::milliseconds lease_;
  std::atomic<uint64_t> generation_{1};  // pairs: release in BeginGeneration, acquire in generation
  mutable std::mutex pinned_mutex_;
  std::vector<AddressRange> pinned_;  // guarded by pinned_mutex_

  std::mutex users_mutex_;
  std::vector<UnpostedCalls*> users_;  // guarded by users_mutex_

  // State of the round, owned by its thread:
  Clock::time_point next_{};
  bool polling_ = false;
  int polls_ = 0;
  // The newest generation in which all earlier lookups were posted.
  uint64_t all_posted_generation_ = 0;
};

// The number of calls of one communicator whose buffers are looked up and that are not in its ring.
// THREAD: under the communicator's submit lock.
class UnpostedCalls {
 public:
  // LIFETIME: both outlive this. REQUIRES: the lock is not held when this is destroyed.
  UnpostedCalls(ExportLeases& leases, std::mutex& submit_lock);
  ~UnpostedCalls();
  UnpostedCalls(const UnpostedCalls&) = delete;
  UnpostedCalls& operator=(const UnpostedCalls&) = delete;

  void Add() { ++count_; }
  void MarkPosted(uint32_t calls) { count_ -= calls; }

 private:
  friend class ExportLeases;

  ExportLeases& leases_;
  std::mutex& submit_lock_;
  uint64_t count_ = 0;
  uint64_t idle_generation_ =
      0;  // the generation in which count_ was 0; owned by the round's thread
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_EXPORT_LEASES_H_
