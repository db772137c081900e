// The memory at both ends of a lane.
#ifndef MCCS_SERVICE_DEVICE_LANE_SHAPE_H_
#define MCCS_SERVICE_DEVICE_LANE_SHAPE_H_

#include <cstdint>

namespace mccs {

struct LaneShape {
  uint32_t slots = 0;       // of the receiver; ≥ 2
  uint32_t slot_bytes = 0;  // maximum payload of one slice

  // Slots in which the sender composes slices. A receive slot is in use until its readers are done,
  // a staging slot only until the slice has arrived, so there are fewer: three quarters, rounded
  // up. A receiver that is busy acknowledges at least each half of a window.
  constexpr uint32_t staging_slots() const { return slots - slots / 4; }

  constexpr uint64_t receive_bytes() const { return uint64_t{slots} * slot_bytes; }
  constexpr uint64_t staging_bytes() const { return uint64_t{staging_slots()} * slot_bytes; }

  friend bool operator==(const LaneShape&, const LaneShape&) = default;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_LANE_SHAPE_H_
