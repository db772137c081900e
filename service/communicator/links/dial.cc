#include "service/communicator/links/dial.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/communicator/links/host_reachability.h"

namespace mccs {
namespace {

// A live peer answers within a round trip, or, if it does not know the communicator yet, after its
// own ranks have started.
constexpr int64_t kDialTimeoutNs = 30 * kNsPerSec;
// A peer whose daemon runs accepts a connection within a round trip, if need be the second packet,
// which is sent after 1 s. Then the daemon checks whether the peer is reachable at all.
constexpr int64_t kSuspectAfterNs = 2 * kNsPerSec;
constexpr int64_t kCheckPeerEveryNs = kNsPerSec;

}  // namespace

Dial::Dial(const PeerAccess& access, const DialOptions& options)
    : access_(access),
      to_(options.route.to),
      is_lane_(options.preamble.purpose == ConnectionPurpose::kLane),
      host_(options.host) {
  if (access.reachability != nullptr) {
    status_ = access.reachability->Check(to_, host_);
    if (!status_.ok()) return;
    check_at_ = access.clock->Now() + kSuspectAfterNs;
  }
  ConnectOptions connect = options.route.connect;
  connect.dscp = access.control_dscp;
  auto connection = access.network->Connect(options.route.to, connect);
  if (!connection.ok()) {
    status_ = connection.status();
    // Without a route, for example.
    if (access.reachability != nullptr && absl::IsUnavailable(status_))
      access.reachability->Suspect(to_);
    return;
  }
  handshake_ = std::make_unique<ClientHandshake>(
      std::move(*connection), options.preamble, options.secret, *access.random,
      access.clock->Now() + kDialTimeoutNs, access.security);
  handshake_->SetWaker(options.waker);
}

Dial::~Dial() {
  const bool given_up = handshake_ != nullptr && !opened_ && !handshake_->opened();
  if (given_up && access_.reachability != nullptr) access_.reachability->Suspect(to_);
}

absl::Status Dial::CheckPeer() {
  check_at_ = opened_ ? kNever : access_.clock->Now() + kCheckPeerEveryNs;
  if (opened_) return absl::OkStatus();
  access_.reachability->Suspect(to_);
  return access_.reachability->Check(to_, host_);
}

absl::StatusOr<std::unique_ptr<Connection>> Dial::Poll() {
  if (!status_.ok()) return status_;
  auto connection = handshake_->Poll(access_.clock->Now());
  opened_ |= handshake_->opened();
  if (!connection.ok()) {
    status_ = connection.status();
    return status_;
  }
  if (*connection == nullptr) {
    if (access_.clock->Now() >= check_at_) status_ = CheckPeer();
    if (!status_.ok()) return status_;
    return nullptr;
  }
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
