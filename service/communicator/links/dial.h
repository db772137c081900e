// Opens an authenticated stream to a peer daemon: connects, then proves knowledge of the
// communicator's secret, and on control links who it is (handshake.h).
//
// OWNER: the user of the stream. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_DIAL_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_DIAL_H_

#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/random.h"
#include "service/transport/handshake.h"
#include "service/transport/network.h"

namespace mccs {

class HostReachability;

// The means to connect to peers.
struct PeerAccess {
  Network* network = nullptr;
  Random* random = nullptr;
  const Clock* clock = nullptr;
  // DSCP of control links and of lane handshakes (ControlDscp, service/pacing/rate_limits.h).
  uint8_t control_dscp = 0;
  PeerSecurity* security = nullptr;          // of control links; null: this host has no certificate
  HostReachability* reachability = nullptr;  // null: not known
};

// Source (as far as it is chosen) and destination of a stream.
struct DialRoute {
  Endpoint to;
  ConnectOptions connect;

  friend bool operator==(const DialRoute&, const DialRoute&) = default;
};

struct DialOptions {
  DialRoute route;
  Preamble preamble;
  Secret secret{};
  // Whose daemon the peer must be, if links are secure, and that must be reachable; empty: any.
  std::string host = {};
  Waker* waker = nullptr;  // of the object that polls the dial and uses the stream
};

class Dial {
 public:
  // Fails at once if the peer is known to be unreachable. A peer that does not accept the
  // connection in time is suspected (host_reachability.h).
  Dial(const PeerAccess& access, const DialOptions& options);
  ~Dial();
  Dial(const Dial&) = delete;

  // The stream when it is authenticated; null until then. An error (rejected, timed out, peer not
  // authenticated) names the peer and is permanent.
  absl::StatusOr<std::unique_ptr<Connection>> Poll();
  // When Poll has work even if no byte arrives; 0: at once.
  MonotonicNs deadline() const {
    return status_.ok() ? std::min(handshake_->deadline(), check_at_) : 0;
  }

 private:
  // Why the peer is unreachable. Suspects one that has not accepted the connection yet.
  absl::Status CheckPeer();

  const PeerAccess access_;
  const Endpoint to_;
  const bool is_lane_;
  const std::string host_;
  absl::Status status_;
  std::unique_ptr<ClientHandshake> handshake_;
  bool opened_ = false;            // the peer has accepted the connection
  MonotonicNs check_at_ = kNever;  // the next CheckPeer
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_DIAL_H_
