// What lanes show of the network while they work: how long a short slice takes there and back at
// the least, and how fast all lanes of a communicator on a host were at the most. For the
// controller, which calibrates the costs by which algorithms are chosen.
//
// THREAD: the owning engine only. No clock is read here, and nothing is allocated.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANE_METER_H_
#define MCCS_SERVICE_COMMUNICATOR_LANE_METER_H_

#include <cstdint>

#include "base/clock.h"
#include "service/transport/lane.h"

namespace mccs {

// The smallest of the values of the last one or two periods.
class RecentLeast {
 public:
  static constexpr int64_t kPeriodNs = 30 * kNsPerSec;

  // Fewer values than `enough` say nothing.
  explicit RecentLeast(int enough) : enough_(enough) {}

  // REQUIRES: value > 0.
  void Note(double value, MonotonicNs now);
  void Forget() { now_ = before_ = {}; }
  // 0: not known.
  double value() const;

 private:
  struct Period {
    double least = 0;
    int values = 0;
  };

  const int enough_;
  Period now_;
  Period before_;
  MonotonicNs since_ = 0;  // of now_
};

// Of all lanes together. A measurement begins with lanes that have slices under way, and holds what
// is posted from then on and acknowledged before it ends:
//
//   under way at the beginning: not counted ─┐
//   ──────────────┬──────────────────────────┴────────────┬───────►
//               begins        acknowledged: as many       ends, where the next one begins
//                             times kTurns, or more
//
// So acknowledgements that come all at once, as the engine was away, make no rate too high. It is
// dropped where lanes have nothing more under way, or are held back on purpose.
class RateMeter {
 public:
  static constexpr uint64_t kTurns = 4;
  static constexpr uint64_t kLeastSlices = 32;
  static constexpr int kEnough = 4;

  // Slices of less than half of this on the average are small ones, which show no rate.
  explicit RateMeter(uint32_t slot_bytes) : slot_bytes_(slot_bytes) {}

  // A lane has posted so many slices since the last call, and so many were acknowledged.
  void Moved(uint64_t posted, uint64_t acknowledged, uint64_t acknowledged_bytes, MonotonicNs now);
  void Drop() { runs_ = false; }

  // Bits per second of payload; 0: not known.
  uint64_t rate_bps() const;

 private:
  void Begin(MonotonicNs now);

  const uint32_t slot_bytes_;
  RecentLeast ns_per_byte_{kEnough};
  uint64_t under_way_ = 0;  // slices
  // Of the measurement, if there is one:
  bool runs_ = false;
  MonotonicNs begin_ = 0;
  uint64_t under_way_before_ = 0;
  uint64_t slices_ = 0;
  uint64_t bytes_ = 0;
};

// Of one lane out of this host.
class LaneMeter {
 public:
  // More bytes on the lane, of slices before it or its own, may be what a round trip waits for.
  static constexpr uint64_t kShortBytes = 4096;
  static constexpr int kEnough = 32;

  // Null: the lane's bytes are of no interest. LIFETIME: `rate` outlives this.
  explicit LaneMeter(RateMeter* rate) : rate_(rate) {}

  // Behind a turn of the lane in which anything moved: the slice that it numbers next, and what was
  // acknowledged.
  void Look(SliceNumber next, const LaneCounters& acknowledged, MonotonicNs now);
  // It is held back on purpose.
  void Drop();
  // It has another connection.
  void Forget();

  // 0: not known.
  int64_t round_trip_ns() const { return static_cast<int64_t>(round_trip_ns_.value()); }

 private:
  RateMeter* const rate_;
  RecentLeast round_trip_ns_{kEnough};
  SliceNumber next_ = 0;  // as at the last look
  LaneCounters acknowledged_;
  // Of a slice that was posted, and is not back:
  bool runs_ = false;
  MonotonicNs begin_ = 0;
  SliceNumber until_ = 0;
  uint64_t bytes_before_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANE_METER_H_
