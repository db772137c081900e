// A host at the other end of a lane that does not move, and why it does not.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_EXECUTOR_STALLED_PEER_H_
#define MCCS_SERVICE_EXECUTOR_STALLED_PEER_H_

#include <compare>

#include "base/ids.h"
#include "service/stalls.h"
#include "service/transport/lane.h"

namespace mccs {

struct StalledPeer {
  HostIndex host;
  StallCause cause = StallCause::kData;

  friend auto operator<=>(const StalledPeer&, const StalledPeer&) = default;
};

// Why a lane does not move that has something to send, or has sent something that is not
// acknowledged.
inline StallCause CauseOf(const SendLane& lane) {
  switch (lane.waits_for()) {
    case LaneWait::kCredit:
      return StallCause::kCredit;
    case LaneWait::kRate:
      return StallCause::kRate;
    case LaneWait::kConnection:
      return StallCause::kConnection;
    case LaneWait::kNothing:
      break;
  }
  return StallCause::kAcknowledgement;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_STALLED_PEER_H_
