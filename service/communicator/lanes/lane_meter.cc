#include "service/communicator/lanes/lane_meter.h"

#include <algorithm>

namespace mccs {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kMaxBps = 1e18;  // for a clock that barely advanced

}  // namespace

// ---- Recent minimum -----------------------------------------------------------------------------

void RecentMinimum::Record(double value, MonotonicNs now) {
  if (now_.values >= min_samples_ && now - since_ >= kPeriodNs) {
    before_ = now_;
    now_ = {};
  }
  if (now_.values == 0) since_ = now;
  now_.minimum = now_.values == 0 ? value : std::min(now_.minimum, value);
  now_.values = std::min(now_.values + 1, min_samples_);
}

double RecentMinimum::value() const {
  if (now_.values < min_samples_) return before_.minimum;
  return before_.values == 0 ? now_.minimum : std::min(now_.minimum, before_.minimum);
}

// ---- The rate -----------------------------------------------------------------------------------

void RateMeter::OnSlices(uint64_t posted, uint64_t acknowledged, uint64_t acknowledged_bytes,
                         MonotonicNs now) {
  in_flight_ += posted;
  in_flight_ -= acknowledged;
  if (in_flight_ == 0) {
    runs_ = false;
    return;
  }
  if (!runs_) return Begin(now);
  slices_ += acknowledged;
  bytes_ += acknowledged_bytes;
  if (slices_ < std::max(kMinSlices, kMinTurnovers * in_flight_at_begin_)) return;
  const bool large = bytes_ / slices_ >= slot_bytes_ / 2;
  if (large && now > begin_) {
    const double counted = static_cast<double>(slices_ - in_flight_at_begin_) /
                           static_cast<double>(slices_) * static_cast<double>(bytes_);
    ns_per_byte_.Record(static_cast<double>(now - begin_) / counted, now);
  }
  Begin(now);
}

void RateMeter::Begin(MonotonicNs now) {
  runs_ = true;
  begin_ = now;
  in_flight_at_begin_ = in_flight_;
  slices_ = bytes_ = 0;
}

uint64_t RateMeter::rate_bps() const {
  const double ns_per_byte = ns_per_byte_.value();
  if (ns_per_byte == 0) return 0;
  const double bps = kBitsPerByte * static_cast<double>(kNsPerSec) / ns_per_byte;
  return static_cast<uint64_t>(std::min(bps, kMaxBps));
}

// ---- One lane -----------------------------------------------------------------------------------

void LaneMeter::Update(SliceNumber next, const LaneCounters& acknowledged, MonotonicNs now) {
  if (rate_ != nullptr) {
    rate_->OnSlices(next - next_, acknowledged.slices - acknowledged_.slices,
                    acknowledged.payload_bytes - acknowledged_.payload_bytes, now);
  }
  for (RoundTrip* trip : {&oldest_, &newest_}) {
    if (!trip->runs || acknowledged.slices < trip->until) continue;
    trip->runs = false;
    const bool is_short = acknowledged.payload_bytes - trip->bytes_before <= kShortBytes;
    if (is_short && now > trip->begin) {
      round_trip_ns_.Record(static_cast<double>(now - trip->begin), now);
    }
  }
  if (next > next_) {
    newest_ = {
        .runs = true, .begin = now, .until = next, .bytes_before = acknowledged.payload_bytes};
    if (!oldest_.runs) oldest_ = newest_;
  }
  next_ = next;
  acknowledged_ = acknowledged;
}

void LaneMeter::Drop() {
  oldest_.runs = newest_.runs = false;
  if (rate_ != nullptr) rate_->Drop();
}

void LaneMeter::Reset() {
  Drop();
  round_trip_ns_.Reset();
}

}  // namespace mccs
