// When a communicator had something under way to other hosts, as this host saw it: the last spans
// of time, coarse, for policies that look for a job's period.
//
// Pauses shorter than a resolution are not told apart from work, so that a job of many short calls
// does not fill the log with one step of its own: where the spans of a full log reach back less
// than kShortestReachNs the resolution grows, where they reach back far it becomes fine again.
//
// OWNER: the Communicator. THREAD: the owning engine. Never allocates.
#ifndef MCCS_SERVICE_COMMUNICATOR_ACTIVITY_LOG_H_
#define MCCS_SERVICE_COMMUNICATOR_ACTIVITY_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace mccs {

struct BusySpan {
  MonotonicNs begin = 0;
  MonotonicNs end = 0;  // of one that goes on: when the log was looked at

  friend bool operator==(const BusySpan&, const BusySpan&) = default;
};

class ActivityLog {
 public:
  static constexpr size_t kMaxSpans = 64;
  static constexpr int64_t kFinestNs = 250 * kNsPerUs;
  static constexpr int64_t kCoarsestNs = 8 * kNsPerMs;
  static constexpr int64_t kShortestReachNs = kNsPerSec;
  // What was before a longer pause is forgotten.
  static constexpr int64_t kForgetAfterNs = 60 * kNsPerSec;

  // Whether anything is under way, and how much is complete since the start; what begins and ends
  // between two looks leaves a span without length. One comparison where nothing has changed.
  void Look(bool busy, uint64_t completed, MonotonicNs now) {
    if (busy != busy_ || completed != completed_) Note(busy, completed, now);
  }

  bool busy() const { return busy_; }
  // The oldest first. The last one goes on, if busy().
  std::span<const BusySpan> spans() const { return {spans_.data(), count_}; }
  int64_t resolution_ns() const { return resolution_ns_; }

 private:
  void Note(bool busy, uint64_t completed, MonotonicNs now);
  void Begin(MonotonicNs now);
  void MakeRoom(MonotonicNs now);
  // Joins spans that the resolution does not tell apart.
  void Join();

  std::array<BusySpan, kMaxSpans> spans_{};
  size_t count_ = 0;
  bool busy_ = false;
  uint64_t completed_ = 0;
  int64_t resolution_ns_ = kFinestNs;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_ACTIVITY_LOG_H_
