#include "service/communicator/links/activity_log.h"

#include <algorithm>

namespace mccs {

void ActivityLog::Record(bool busy, uint64_t completed, MonotonicNs now) {
  if (busy != busy_) {
    if (busy) {
      Begin(now);
    } else {
      spans_[count_ - 1].end = now;
    }
  } else if (!busy && completed != completed_) {
    Begin(now);
  }
  busy_ = busy;
  completed_ = completed;
}

// Starts a span of length 0, or extends the last one if the gap is below the resolution.
void ActivityLog::Begin(MonotonicNs now) {
  if (count_ > 0) {
    BusySpan& last = spans_[count_ - 1];
    if (now - last.end < resolution_ns_) {
      last.end = now;
      return;
    }
    if (now - last.end > kMaxPauseNs) {
      count_ = 0;
      resolution_ns_ = kMinResolutionNs;
    }
  }
  if (count_ == kMaxSpans) MakeRoom(now);
  spans_[count_++] = {now, now};
}

void ActivityLog::MakeRoom(MonotonicNs now) {
  const int64_t reach = now - spans_[0].begin;
  while (count_ == kMaxSpans && reach < kMinCoverageNs && resolution_ns_ < kMaxResolutionNs) {
    resolution_ns_ *= 2;
    MergeSpans();
  }
  if (count_ < kMaxSpans) return;
  if (reach > 4 * kMinCoverageNs) resolution_ns_ = std::max(resolution_ns_ / 2, kMinResolutionNs);
  std::move(spans_.begin() + 1, spans_.end(), spans_.begin());
  --count_;
}

void ActivityLog::MergeSpans() {
  size_t kept = 0;
  for (size_t i = 1; i < count_; ++i) {
    if (spans_[i].begin - spans_[kept].end < resolution_ns_) {
      spans_[kept].end = spans_[i].end;
    } else {
      spans_[++kept] = spans_[i];
    }
  }
  count_ = kept + 1;
}

void ActivityLog::Write(MonotonicNs now, agent::v1::Report* out) const {
  if (count_ == 0) return;
  agent::v1::Activity* activity = out->mutable_activity();
  activity->set_begin_ns(spans_[0].begin);
  activity->set_ongoing(busy_);
  for (size_t i = 0; i < count_; ++i) {
    const MonotonicNs end = busy_ && i + 1 == count_ ? now : spans_[i].end;
    if (i > 0) activity->add_span_ns(static_cast<uint64_t>(spans_[i].begin - spans_[i - 1].end));
    activity->add_span_ns(static_cast<uint64_t>(end - spans_[i].begin));
  }
}

}  // namespace mccs
