// The lanes that a plan names.
#ifndef MCCS_SERVICE_EXECUTOR_LANE_DIRECTORY_H_
#define MCCS_SERVICE_EXECUTOR_LANE_DIRECTORY_H_

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "service/transport/lane.h"

namespace mccs {

// OWNER: the communicator's lanes (LaneSet). THREAD: the owning engine only. Never blocks.
class LaneDirectory {
 public:
  virtual ~LaneDirectory() = default;

  // The lane to or from `peer` on `channel`. Creates it on first use and returns the same one each
  // time. kResourceExhausted: no memory for its slots.
  // LIFETIME: as long as the directory.
  virtual SendLane* SendTo(ChannelId channel, HostIndex peer) = 0;
  virtual absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId channel, HostIndex peer) = 0;
  // The staging slots of that lane, to compose slices in before they are sent; allocated by the
  // first call. Errors as above.
  virtual absl::StatusOr<RegionSpan> StagingTo(ChannelId channel, HostIndex peer) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_LANE_DIRECTORY_H_
