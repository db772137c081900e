#include "service/transport/stream_lane.h"

namespace mccs {

std::unique_ptr<SendLane> StreamTransport::MakeSendLane(const LaneShape& shape) {
  return std::make_unique<StreamSendLane>(shape);
}

std::unique_ptr<RecvLane> StreamTransport::MakeRecvLane(const LaneShape& shape, MemRef slots) {
  return std::make_unique<StreamRecvLane>(shape, slots);
}

}  // namespace mccs
