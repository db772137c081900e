// The memory at the receiving end of a lane.
#ifndef MCCS_SERVICE_DEVICE_LANE_SHAPE_H_
#define MCCS_SERVICE_DEVICE_LANE_SHAPE_H_

#include <cstdint>

namespace mccs {

struct LaneShape {
  uint32_t slots = 0;       // ≥ 2
  uint32_t slot_bytes = 0;  // maximum payload of one slice

  friend bool operator==(const LaneShape&, const LaneShape&) = default;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_LANE_SHAPE_H_
