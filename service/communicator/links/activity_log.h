// Records when a communicator had work in flight to other hosts, as seen by this host. Policies
// that detect a job's period read it.
//
// Only pauses longer than the resolution split spans, so that many short calls do not fill the log.
// When a full log covers less than kMinCoverageNs, the resolution becomes coarser; when it covers
// much more, it becomes finer again.
//
// OWNER: the Communicator. THREAD: the owning engine. Only Write allocates.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_ACTIVITY_LOG_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_ACTIVITY_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "proto/agent.pb.h"

namespace mccs {

struct BusySpan {
  MonotonicNs begin = 0;
  MonotonicNs end = 0;  // of an ongoing span: time of the last update

  friend bool operator==(const BusySpan&, const BusySpan&) = default;
};

class ActivityLog {
 public:
  static constexpr size_t kMaxSpans = 64;
  static constexpr int64_t kMinResolutionNs = 250 * kNsPerUs;
  static constexpr int64_t kMaxResolutionNs = 8 * kNsPerMs;
  static constexpr int64_t kMinCoverageNs = kNsPerSec;
  // A pause longer than this clears the log.
  static constexpr int64_t kMaxPauseNs = 60 * kNsPerSec;

  // Records whether work is in flight and how much has completed since the start. Work that begins
  // and ends between two calls leaves a span of length 0. Costs one comparison when nothing has
  // changed.
  void Update(bool busy, uint64_t completed, MonotonicNs now) {
    if (busy != busy_ || completed != completed_) Record(busy, completed, now);
  }

  bool busy() const { return busy_; }
  // Oldest first. The last span is ongoing if busy().
  std::span<const BusySpan> spans() const { return {spans_.data(), count_}; }
  int64_t resolution_ns() const { return resolution_ns_; }

  // For a report at the time `now`; nothing without spans.
  void Write(MonotonicNs now, agent::v1::Report* out) const;

 private:
  void Record(bool busy, uint64_t completed, MonotonicNs now);
  void Begin(MonotonicNs now);
  void MakeRoom(MonotonicNs now);
  // Merges spans whose gap is shorter than the resolution.
  void MergeSpans();

  std::array<BusySpan, kMaxSpans> spans_{};
  size_t count_ = 0;
  bool busy_ = false;
  uint64_t completed_ = 0;
  int64_t resolution_ns_ = kMinResolutionNs;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_ACTIVITY_LOG_H_
