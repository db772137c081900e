#include "service/communicator/links/dial.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

// A live peer answers within a round trip, or, if it does not know the communicator yet, after its
// own ranks have started.
constexpr int64_t kDialTimeoutNs = 30 * kNsPerSec;

}  // namespace

Dial::Dial(const PeerAccess& access, const DialOptions& options)
    : access_(access),
      is_lane_(options.preamble.purpose == ConnectionPurpose::kLane),
      host_(options.host) {
  ConnectOptions connect = options.route.connect;
  connect.dscp = access.control_dscp;
  auto connection = access.network->Connect(options.route.to, connect);
  if (!connection.ok()) {
    status_ = connection.status();
    return;
  }
  handshake_ = std::make_unique<ClientHandshake>(
      std::move(*connection), options.preamble, options.secret, *access.random,
      access.clock->Now() + kDialTimeoutNs, access.security);
  handshake_->SetWaker(options.waker);
}

absl::StatusOr<std::unique_ptr<Connection>> Dial::Poll() {
  if (!status_.ok()) return status_;
  auto connection = handshake_->Poll(access_.clock->Now());
  if (!connection.ok()) {
    status_ = connection.status();
    return status_;
  }
  if (*connection == nullptr) return nullptr;
  const std::string& peer = handshake_->peer_host();
  if (!host_.empty() && !peer.empty() && peer != host_) {
    status_ = absl::UnauthenticatedError(
        absl::StrCat("the daemon at ", ToString((*connection)->remote()), " is that of host ", peer,
                     " by its certificate, not that of host ", host_));
    return status_;
  }
  if (is_lane_ && access_.control_dscp != 0) (*connection)->Mark(0);  // The lane sets its own DSCP.
  return connection;
}

}  // namespace mccs
