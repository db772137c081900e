// Asks the sender of a lane to open it again.
//
// If a port of the receiver goes down, its sender may not notice: it has nothing to send, or waits
// for credit. A receiver with several NICs, or whose peer has several, therefore connects to the
// sender as if it were the lane's sender, over one pair of NICs after the other. The sender closes
// that stream and opens the lane again, with the next of its own routes.
//
// OWNER: an IncomingLane. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_REOPEN_REQUEST_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_REOPEN_REQUEST_H_

#include <memory>

#include "base/clock.h"
#include "service/communicator/lanes/lane_routes.h"
#include "service/communicator/links/dial.h"

namespace mccs {

class ReopenRequest {
 public:
  // `dial`: its preamble names the lane; its route is to the lane's sender.
  ReopenRequest(const PeerAccess& access, const DialOptions& dial, LaneRoutes routes)
      : access_(access), options_(dial), routes_(std::move(routes)) {}

  // The lane has had a connection from `peer` to `own`, addresses of NICs.
  void SetNics(const std::string& own, const std::string& peer) {
    options_.route.connect.source_host = own;
    options_.route.to.host = peer;
  }
  // Asks, again and again until Stop. Returns true if another attempt has begun.
  bool Ask();
  void Stop();
  // When Ask has work; never after Stop.
  MonotonicNs NextDeadline() const { return next_at_ == 0 ? kNever : next_at_; }

 private:
  const PeerAccess access_;
  DialOptions options_;
  const LaneRoutes routes_;
  std::unique_ptr<Dial> dial_;
  int attempt_ = 0;
  MonotonicNs next_at_ = 0;  // of the next attempt; 0: it does not ask
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_REOPEN_REQUEST_H_
