// Measures the network through working lanes: the shortest round trip of a short slice, and the
// highest rate of all lanes of a communicator on a host. The controller calibrates the costs of
// algorithms with the results.
//
// THREAD: the owning engine only. Reads no clock and allocates nothing.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_LANE_METER_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_LANE_METER_H_

#include <cstdint>

#include "base/clock.h"
#include "service/transport/lane.h"

namespace mccs {

// The minimum of the values of the last one or two periods.
class RecentMinimum {
 public:
  static constexpr int64_t kPeriodNs = 30 * kNsPerSec;

  // With fewer than `min_samples` values the result is unknown.
  explicit RecentMinimum(int min_samples) : min_samples_(min_samples) {}

  // REQUIRES: value > 0.
  void Record(double value, MonotonicNs now);
  void Reset() { now_ = before_ = {}; }
  // 0: unknown.
  double value() const;

 private:
  struct Period {
    double minimum = 0;
    int values = 0;
  };

  const int min_samples_;
  Period now_;
  Period before_;
  MonotonicNs since_ = 0;  // of now_
};

// Measures the rate of all lanes together. A measurement starts while slices are in flight. It
// counts slices that are posted after its start and acknowledged before its end:
//
//   in flight at the start: not counted ─┐
//   ──────────────┬──────────────────────┴────────────────┬───────►
//               start         acknowledged: kMinTurnovers        end = start of the next one
//                             times as many, or more
//
// Acknowledgements that arrive all at once, after the engine was away, therefore do not inflate the
// rate. A measurement is discarded when nothing is in flight or a rate limit delays the lanes.
class RateMeter {
 public:
  static constexpr uint64_t kMinTurnovers = 4;
  static constexpr uint64_t kMinSlices = 32;
  static constexpr int kMinSamples = 4;

  // If the mean slice is smaller than half of this, the measurement does not count.
  explicit RateMeter(uint32_t slot_bytes) : slot_bytes_(slot_bytes) {}

  // `posted` slices of a lane since the last call, and those acknowledged.
  void OnSlices(uint64_t posted, uint64_t acknowledged, uint64_t acknowledged_bytes,
                MonotonicNs now);
  void Drop() { runs_ = false; }

  // Payload in bit/s; 0: unknown.
  uint64_t rate_bps() const;

 private:
  void Begin(MonotonicNs now);

  const uint32_t slot_bytes_;
  RecentMinimum ns_per_byte_{kMinSamples};
  uint64_t in_flight_ = 0;  // slices in flight
  // Of the current measurement, if any:
  bool runs_ = false;
  MonotonicNs begin_ = 0;
  uint64_t in_flight_at_begin_ = 0;
  uint64_t slices_ = 0;
  uint64_t bytes_ = 0;
};

// Measures one lane out of this host.
class LaneMeter {
 public:
  // With more bytes on the lane, of earlier slices or its own, the round trip may include queueing.
  static constexpr uint64_t kShortBytes = 4096;
  static constexpr int kMinSamples = 32;

  // Null: the rate is not measured. LIFETIME: `rate` outlives this.
  explicit LaneMeter(RateMeter* rate) : rate_(rate) {}

  // After a turn in which the lane moved anything: the next slice number, and the acknowledged
  // total.
  void Update(SliceNumber next, const LaneCounters& acknowledged, MonotonicNs now);
  // A rate limit delays the lane.
  void Drop();
  // The lane has another connection.
  void Reset();

  // 0: unknown.
  int64_t round_trip_ns() const { return static_cast<int64_t>(round_trip_ns_.value()); }

 private:
  struct RoundTrip {
    bool runs = false;
    MonotonicNs begin = 0;
    SliceNumber until = 0;
    uint64_t bytes_before = 0;  // acknowledged at `begin`
  };

  RateMeter* const rate_;
  RecentMinimum round_trip_ns_{kMinSamples};
  SliceNumber next_ = 0;  // at the last call
  LaneCounters acknowledged_;
  // Two posted slices that are not yet acknowledged. One is measured to its end, also if others
  // follow. The last one ends earlier if an acknowledgement is deferred until it lands.
  RoundTrip oldest_;
  RoundTrip newest_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_LANE_METER_H_
