#include "service/communicator/dial.h"

#include <utility>

namespace mccs {
namespace {

// A peer that is alive answers in a round trip; one that has not heard of the communicator yet may
// need as long as its own ranks take to start.
constexpr int64_t kDialPatienceNs = 30 * kNsPerSec;

}  // namespace

Dial::Dial(const PeerAccess& access, const DialOptions& options)
    : access_(access), is_lane_(options.preamble.purpose == ConnectionPurpose::kLane) {
  ConnectOptions connect = options.route.connect;
  connect.dscp = access.control_mark;
  auto connection = access.network->Connect(options.route.to, connect);
  if (!connection.ok()) {
    status_ = connection.status();
    return;
  }
  (*connection)->WakeOnReady(options.waker);
  handshake_ =
      std::make_unique<ClientHandshake>(std::move(*connection), options.preamble, options.secret,
                                        *access.random, access.clock->Now() + kDialPatienceNs);
}

absl::StatusOr<std::unique_ptr<Connection>> Dial::Poll() {
  if (!status_.ok()) return status_;
  auto connection = handshake_->Poll(access_.clock->Now());
  if (!connection.ok()) {
    status_ = connection.status();
  } else if (*connection != nullptr && is_lane_ && access_.control_mark != 0) {
    (*connection)->Mark(0);  // Its lane knows what it bears.
  }
  return connection;
}

}  // namespace mccs
